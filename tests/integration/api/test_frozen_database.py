"""A PostgreSQL that answers nobody: every request is answered all the same, and later ones again."""

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

import httpx
import pytest

from codehub.api.middleware import DEADLINE_SECONDS
from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

REQUESTS = [
    ("GET", "/api/v1/workspaces"),
    ("GET", "/api/v1/workspaces?limit=7&q=a"),
    ("GET", "/api/v1/workspaces/{id}"),
    ("GET", "/api/v1/workspaces/{id}/history"),
    ("GET", "/api/v1/workspaces/{id}/events"),
    ("GET", "/api/v1/events"),
    ("GET", "/api/v1/auth/session"),
    ("GET", "/api/v1/limits"),
    ("GET", "/api/v1/tokens"),
    ("GET", "/api/v1/users"),
    ("GET", "/api/v1/admin/overview"),
    ("GET", "/api/v1/admin/orphans"),
    ("GET", "/api/v1/admin/audit"),
    ("POST", "/api/v1/workspaces/{id}/start"),
    ("DELETE", "/api/v1/workspaces/{id}"),
    ("POST", "/api/v1/auth/login"),
]
SIGN_IN = {"username": "admin", "password": "whatever it was"}


@pytest.fixture
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is remembered from the last request: all of them have to ask the database."""
    monkeypatch.setattr("codehub.services.identity.CACHE_SECONDS", 0.0)


@pytest.mark.usefixtures("forgetful")
async def test_every_request_is_answered_within_its_deadline(
    environment: ApiEnvironment, postgres_server: PostgresServer
) -> None:
    admin = await environment.sign_in("admin")
    workspace = await create_workspace(admin)

    async def ask(method: str, path: str) -> tuple[str, int, str, float]:
        began = time.monotonic()
        body: dict[str, Any] = {"json": SIGN_IN} if path.endswith("login") else {}
        answer = await admin.request(method, path.format(id=workspace["id"]), timeout=60, **body)
        code = answer.json().get("code", "") if answer.status_code != 200 else ""
        return path, answer.status_code, code, time.monotonic() - began

    with postgres_server.frozen():
        answers = await asyncio.gather(*(ask(*each) for each in REQUESTS))
        health = time.monotonic()
        assert (await admin.get("/health/live")).status_code == 200
        assert (await admin.get("/health/ready", timeout=60)).status_code == 503
        assert (await admin.get("/metrics", timeout=60)).status_code == 200
        assert time.monotonic() - health < DEADLINE_SECONDS
    for path, status, code, seconds in answers:
        assert (path, status, code) == (path, 503, "unavailable")
        assert seconds < DEADLINE_SECONDS + 3, path

    async def well_again() -> bool:
        try:
            answer = await admin.get("/api/v1/workspaces", timeout=60)
        except httpx.TransportError:
            return False
        return answer.status_code == 200

    await until(well_again, seconds=30, what="the API to be well again")


async def test_an_open_stream_has_no_deadline(
    environment: ApiEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what comes before its first byte counts."""
    monkeypatch.setattr("codehub.api.middleware.DEADLINE_SECONDS", 0.3)
    ann = await environment.sign_in("ann")
    sent: list[str] = []
    over = asyncio.Event()

    async def receive() -> dict[str, object]:
        await over.wait()
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(str(message["type"]))

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/api/v1/events",
        "query_string": b"",
        "headers": [(b"cookie", "; ".join(f"{k}={v}" for k, v in ann.cookies.items()).encode())],
        "http_version": "1.1",
        "scheme": "http",
        "server": ("127.0.0.1", 80),
        "client": ("127.0.0.1", 1),
        "root_path": "",
    }
    stream = asyncio.create_task(environment.app(scope, receive, send))
    done, _ = await asyncio.wait({stream}, timeout=1.5)
    assert not done
    assert sent[0] == "http.response.start"
    over.set()
    await asyncio.wait_for(stream, 10)
