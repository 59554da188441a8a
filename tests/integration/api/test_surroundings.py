"""What is served beside the calls about workspaces: health, measurements, output, orphans, the dashboard."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import httpx
from fastapi import FastAPI

from codehub.api import dashboard, problems
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import LeftVolume
from tests.integration.api.environment import BASE_URL, ApiEnvironment, create_workspace, serve
from tests.integration.api.listening import listening
from tests.support.redis import RedisServer


async def test_health_needs_no_signing_in(environment: ApiEnvironment, redis_server: RedisServer) -> None:
    client = environment.client()
    assert (await client.get("/health/live")).json() == {"status": "ok"}
    assert (await client.get("/health/ready")).json() == {"status": "ok"}
    assert (await client.get("/health/coordinator")).json()["node_id"] == "test"
    redis_server.kill()  # makes things late, never wrong: no reason to take traffic away
    assert (await client.get("/health/ready")).status_code == 200


async def test_measurements_are_by_route_and_status(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    await ann.get(f"/api/v1/workspaces/{workspace['id']}")
    await ann.get(f"/api/v1/workspaces/{workspace['id']}/history")
    lines = (await ann.get("/metrics")).text.splitlines()
    assert 'codehub_workspaces{status="new"} 1.0' in lines
    assert 'codehub_workspaces{status="running"} 0.0' in lines
    counted = [line for line in lines if line.startswith("codehub_http_request_seconds_count")]
    for route in ("/api/v1/workspaces/{workspace_id}", "/api/v1/workspaces/{workspace_id}/history"):
        assert any(f'route="{route}",status="200"' in line for line in counted), counted
    assert not any(workspace["id"] in line for line in lines)


async def test_output_is_text_and_goes_on_as_events(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    place = environment.runtime.place(UUID(workspace["id"]))
    place.output += [b"first line\n", b"caf\xe9\n"]
    path = f"/api/v1/workspaces/{workspace['id']}/logs"
    answer = await ann.get(path)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text == "first line\ncaf\ufffd\n"
    place.container = ContainerState.RUNNING
    async with serve(environment.app) as base, listening(ann, f"{base}{path}?follow=true") as heard:
        await heard.until(2, "log")
        place.output.append(b"{later}\n")
        place.changed.set()
        assert (await heard.until(3, "log")).data == {"text": "{later}\n"}
        environment.runtime.kill_container(UUID(workspace["id"]))
        await heard.until_ended()


async def test_a_runtime_that_is_away_is_503_and_says_so(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    environment.runtime.fail_next("observe", EffectError(FailureCode.DOCKER_API_ERROR, "Docker is away"))
    answer = await admin.get("/api/v1/admin/orphans")
    assert (answer.status_code, answer.json()["detail"]) == (503, "Docker is away")
    assert answer.headers["retry-after"]


async def test_what_belongs_to_nobody_is_listed(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    known, stranger = await create_workspace(admin), uuid4()
    for each in (UUID(known["id"]), stranger):
        environment.runtime.place(each).volume = {}
        environment.runtime.place(each).container = ContainerState.RUNNING
    items = (await admin.get("/api/v1/admin/orphans")).json()["items"]
    assert [(each["kind"], each["name"]) for each in items] == [
        ("container", f"ws-{stranger}"),
        ("volume", f"ws-{stranger}-home"),
    ]


async def test_volumes_that_outlived_their_homes_are_listed(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    since = datetime(2026, 1, 2, tzinfo=UTC)
    environment.runtime.left_volumes = [LeftVolume("pvc-1", 1024**3, since), LeftVolume("pvc-2")]
    items = (await admin.get("/api/v1/admin/orphans")).json()["items"]
    retained = {"kind": "volume", "why": "retained"}
    assert items == [
        {**retained, "name": "pvc-1", "bytes": 1024**3, "first_seen_at": "2026-01-02T00:00:00Z"},
        {**retained, "name": "pvc-2", "bytes": None, "first_seen_at": None},
    ]


async def test_the_dashboard_is_served_with_a_strict_policy(tmp_path: Path) -> None:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_text("<!doctype html><title>CodeHub</title>")
    (tmp_path / "assets" / "app-1a2b3c.js").write_text("console.log('hello');" * 50)
    (tmp_path.parent / "secret.txt").write_text("not yours")
    app = FastAPI()
    problems.install(app)
    dashboard.install(app, directory=tmp_path)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app, raise_app_exceptions=False), base_url=BASE_URL
    ) as client:
        for page in ("/", "/workspaces/some-id", "/login?next=/"):
            answer = await client.get(page)
            assert "<title>CodeHub</title>" in answer.text
            assert answer.headers["cache-control"] == "no-cache"
            assert answer.headers["content-security-policy"] == dashboard.POLICY
            again = await client.get(page, headers={"If-None-Match": answer.headers["etag"]})
            assert again.status_code == 304
        script = await client.get("/assets/app-1a2b3c.js")
        assert script.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert script.headers["content-type"].startswith("application/javascript")
        assert script.headers["content-encoding"] == "gzip"
        assert script.text.startswith("console.log")
        for nowhere in ("/assets/old-000000.js", "/api/v1/x", "/w/x", "/..%2fsecret.txt"):
            answer = await client.get(nowhere)
            assert "not yours" not in answer.text
            if not nowhere.startswith("/.."):
                assert answer.status_code == 404


async def test_pages_of_an_application_without_a_build(environment: ApiEnvironment) -> None:
    answer = await environment.client().get("/anything")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    missing = await environment.client().get("/assets/none.js")
    assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


async def test_stopping_ends_open_streams_at_once(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    async with asyncio.timeout(20):
        async with serve(environment.app) as base:
            context = listening(ann, f"{base}/api/v1/events")
            heard = await context.__aenter__()
            await heard.until(1, "snapshot")
        await heard.until_ended()
        await context.__aexit__(None, None, None)
