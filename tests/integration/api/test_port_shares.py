"""Owners label and share ports: never above what the installation allows, with every change recorded and told."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from fastapi import FastAPI

from codehub.domain.port_shares import MAX_SHARES, ShareLevel, SharePolicy
from codehub.signals.live import Change
from codehub.store.workspaces import port_shares
from tests.integration.api.environment import ApiEnvironment, create_workspace, user_id

DOMAIN = "ws.codehub.test"


def app_with(environment: ApiEnvironment, ceiling: ShareLevel, *, domain: str | None = DOMAIN) -> FastAPI:
    policy = SharePolicy(ceiling=ceiling, has_origins=domain is not None, max_link=timedelta(hours=48))
    return environment.with_settings(base_domain=domain, share_policy=policy, link_secret=b"s")


async def person(environment: ApiEnvironment, app: FastAPI, name: str) -> httpx.AsyncClient:
    """Somebody signed in, with another application over the same parts."""
    cookies = (await environment.sign_in(name)).cookies
    client = httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://codehub.test", cookies=cookies
    )
    client.headers["Origin"] = "http://codehub.test"
    environment.clients.append(client)
    return client


@pytest.fixture
async def ann(environment: ApiEnvironment) -> httpx.AsyncClient:
    return await person(environment, app_with(environment, ShareLevel.PUBLIC), "ann")


@pytest.fixture
async def path(ann: httpx.AsyncClient) -> str:
    return f"/api/v1/workspaces/{(await create_workspace(ann))['id']}/shares"


async def put(client: httpx.AsyncClient, path: str, port: int = 3000, **body: Any) -> dict[str, Any]:
    answer = await client.put(f"{path}/{port}", json=body)
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_a_port_is_labelled_shared_and_taken_back(
    environment: ApiEnvironment, ann: httpx.AsyncClient, path: str
) -> None:
    labelled = await put(ann, path, level="private", label="the demo")
    workspace_id = path.split("/")[4]
    url = f"http://3000--{workspace_id}.{DOMAIN}/"
    assert labelled == {
        "port": 3000,
        "label": "the demo",
        "level": "private",
        "level_now": "private",
        "expires_at": None,
        "url": url,
        "link": None,
    }
    inside = await put(ann, path, level="signed_in", label="the demo")
    assert (inside["level_now"], inside["expires_at"], inside["link"]) == ("signed_in", None, None)
    public = await put(ann, path, level="public", lasts_seconds=3600)
    assert public["link"].startswith(url + "_codehub/share?key=")
    assert public["label"] == ""
    left = datetime.fromisoformat(public["expires_at"]) - datetime.now(UTC)
    assert timedelta(minutes=59) < left <= timedelta(hours=1)
    listed = (await ann.get(path)).json()
    assert listed == {"shares": [public], "highest": "public", "lower_because": None, "max_link_hours": 48}
    assert (await ann.delete(f"{path}/3000")).status_code == 204
    assert (await ann.delete(f"{path}/3000")).status_code == 404
    assert (await ann.get(path)).json()["shares"] == []
    admin = await environment.sign_in("admin")
    audit = (await admin.get("/api/v1/admin/audit")).json()["items"]
    ours = [each for each in reversed(audit) if each["action"].startswith("workspace.port.")]
    assert [(each["actor"], each["action"], each["detail"].get("level")) for each in ours] == [
        ("user:ann", "workspace.port.share", "private"),
        ("user:ann", "workspace.port.share", "signed_in"),
        ("user:ann", "workspace.port.share", "public"),
        ("user:ann", "workspace.port.unshare", None),
    ]
    assert public["link"].partition("key=")[2] not in str(ours)


async def test_a_link_stays_while_it_lives_and_a_new_one_is_another(
    ann: httpx.AsyncClient, path: str
) -> None:
    first = await put(ann, path, level="public")
    later = await put(ann, path, level="public", label="renamed", lasts_seconds=7200)
    assert later["link"] == first["link"]
    renewed = await put(ann, path, level="public", new_link=True)
    assert renewed["link"] != first["link"]
    await put(ann, path, level="private")
    again = await put(ann, path, level="public")
    assert again["link"] not in (first["link"], renewed["link"])


async def test_a_link_that_ended_is_not_made_good_again(
    environment: ApiEnvironment, ann: httpx.AsyncClient, path: str
) -> None:
    first = await put(ann, path, level="public", lasts_seconds=60)
    workspace_id = UUID(path.split("/")[4])
    async with environment.sessions.begin() as session:
        (known,) = await port_shares.list_of(session, workspace_id)
        over = datetime.now(UTC) - timedelta(seconds=1)
        await port_shares.put(session, workspace_id, type(known)(**{**vars(known), "expires_at": over}))
    listed = (await ann.get(path)).json()["shares"][0]
    assert (listed["level"], listed["level_now"], listed["link"]) == ("public", "private", None)
    assert (await put(ann, path, level="public"))["link"] != first["link"]


@pytest.mark.parametrize(
    ("ceiling", "domain", "level", "status", "because"),
    [
        (ShareLevel.PRIVATE, DOMAIN, "signed_in", 403, "ceiling"),
        (ShareLevel.SIGNED_IN, DOMAIN, "signed_in", 200, "ceiling"),
        (ShareLevel.SIGNED_IN, DOMAIN, "public", 403, "ceiling"),
        (ShareLevel.PUBLIC, DOMAIN, "public", 200, None),
        (ShareLevel.PUBLIC, None, "signed_in", 403, "no_base_domain"),
        (ShareLevel.PUBLIC, None, "private", 200, "no_base_domain"),
        (ShareLevel.PRIVATE, DOMAIN, "private", 200, "ceiling"),
    ],
)
async def test_nothing_goes_above_what_the_installation_allows(
    environment: ApiEnvironment,
    ceiling: ShareLevel,
    domain: str | None,
    level: str,
    status: int,
    because: str | None,
) -> None:
    client = await person(environment, app_with(environment, ceiling, domain=domain), "ann")
    path = f"/api/v1/workspaces/{(await create_workspace(client))['id']}/shares"
    answer = await client.put(f"{path}/3000", json={"level": level})
    assert answer.status_code == status, answer.text
    if status == 403:
        assert answer.json()["code"] == "share_refused"
        names = "CODEHUB_BASE_DOMAIN" if domain is None else "CODEHUB_PORT_SHARE_CEILING"
        assert names in answer.json()["detail"]
    listed = (await client.get(path)).json()
    assert listed["lower_because"] == because
    assert len(listed["shares"]) == (1 if status == 200 else 0)


async def test_a_lowered_ceiling_closes_what_was_shared(
    environment: ApiEnvironment, ann: httpx.AsyncClient, path: str
) -> None:
    await put(ann, path, level="public")
    later = await person(environment, app_with(environment, ShareLevel.SIGNED_IN), "ann")
    (listed,) = (await later.get(path)).json()["shares"]
    assert (listed["level"], listed["level_now"], listed["link"]) == ("public", "private", None)


async def test_bounds(ann: httpx.AsyncClient, path: str) -> None:
    for port, body in (
        (0, {"level": "private"}),
        (65536, {"level": "private"}),
        (3000, {"level": "everyone"}),
        (3000, {"level": "public", "lasts_seconds": 1}),
        (3000, {"level": "private", "label": "x" * 65}),
        (3000, {"level": "private", "label": "a\u202eb"}),
    ):
        assert (await ann.put(f"{path}/{port}", json=body)).status_code == 422, (port, body)
    too_long = await ann.put(f"{path}/3000", json={"level": "public", "lasts_seconds": 49 * 3600})
    assert (too_long.status_code, too_long.json()["code"]) == (403, "share_refused")
    for port in range(1, MAX_SHARES + 1):
        await put(ann, path, port, level="private", label="x")
    full = await ann.put(f"{path}/9999", json={"level": "private"})
    assert (full.status_code, full.json()["code"]) == (409, "too_many_shares")
    await put(ann, path, 1, level="signed_in")  # one that is there may change


async def test_proxies_are_told_and_a_disabled_owner_shares_nothing(
    environment: ApiEnvironment, ann: httpx.AsyncClient, path: str
) -> None:
    workspace_id = UUID(path.split("/")[4])
    with environment.live.subscribe_all() as changes:
        await changes.take(5.0)  # the resync of a new subscription
        await put(ann, path, level="signed_in")
        told = await changes.take(5.0)
        assert [each.id for each in told if isinstance(each, Change)] == [workspace_id]
        await ann.delete(f"{path}/3000")
        assert [type(each) for each in await changes.take(5.0)] == [Change]
    await put(ann, path, level="signed_in")
    await put(ann, path, 3001, level="private", label="quiet")
    async with environment.sessions() as session:
        assert [share.port for _, share in await port_shares.list_open(session, [workspace_id])] == [3000]
    admin = await environment.sign_in("admin")
    assert (
        await admin.patch(f"/api/v1/users/{await user_id(ann)}", json={"disabled": True})
    ).status_code == 200
    async with environment.sessions() as session:
        assert await port_shares.list_open(session, [workspace_id]) == []
