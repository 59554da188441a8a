"""People in front of a running CodeHub, without a browser: they sign in, open workspaces, leave tabs open."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import websockets

from tests.support.waiting import until

ADMIN_PASSWORD = "an admin's password"
PASSWORD = "a person's password"
ECHO = f"{sys.executable} {Path(__file__).with_name('echo_server.py')} {{socket}}"
ECHO_ON_PORT = ECHO.replace("{socket}", "{port}")

# What a browser says when a person opens an address, and when a script of a page asks for something.
NAVIGATION = {"Accept": "text/html,*/*;q=0.8", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
BACKGROUND = {"Accept": "*/*", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}

QUICK = {
    "CODEHUB_ADMIN_PASSWORD": ADMIN_PASSWORD,
    "COORDINATOR_START_JITTER": "0",
    "COORDINATOR_RETRY_INTERVAL": "0.5",
    "OBSERVER_INTERVAL": "1",
    "OBSERVER_ACTIVE_INTERVAL": "0.2",
    "RECONCILER_INTERVAL": "1",
    "RECONCILER_ACTIVE_INTERVAL": "0.2",
    "RECONCILER_CONVERGE_INTERVAL": "0.5",
    "TTL_INTERVAL": "0.5",
    "LOG_LEVEL": "WARNING",
}
"""A CodeHub whose ticks are short; nothing else differs."""


class Person:
    """Somebody signed in. ``api`` insists on success, the others give the answer whatever it is."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self.url = url
        self.username = ""
        self.client = client

    @classmethod
    @asynccontextmanager
    async def nobody(cls, url: str) -> "AsyncIterator[Person]":
        async with httpx.AsyncClient(
            base_url=url, headers={"Origin": url}, timeout=30, trust_env=False, follow_redirects=False
        ) as client:
            yield cls(url, client)

    @classmethod
    @asynccontextmanager
    async def sign_in(cls, url: str, username: str, password: str = PASSWORD) -> "AsyncIterator[Person]":
        async with cls.nobody(url) as person:
            await person.api("POST", "/auth/login", json={"username": username, "password": password})
            person.username = username
            yield person

    @classmethod
    def admin(cls, url: str) -> Any:
        return cls.sign_in(url, "admin", ADMIN_PASSWORD)

    @property
    def cookie(self) -> str:
        return "; ".join(f"{name}={value}" for name, value in self.client.cookies.items())

    # By way of the API

    async def api(self, method: str, path: str, **options: Any) -> Any:
        answer = await self.client.request(method, f"/api/v1{path}", **options)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    async def add_user(self, username: str, *, role: str = "user") -> dict[str, Any]:
        body = {"username": username, "password": PASSWORD, "role": role}
        return dict(await self.api("POST", "/users", json=body))

    async def create(self, name: str, *, image: str = "echo", start: bool = True, **more: Any) -> str:
        body = {"name": name, "image_ref": image, "start": start, **more}
        return str((await self.api("POST", "/workspaces", json=body))["id"])

    async def running(self, name: str, **more: Any) -> str:
        """A new workspace that answers, and whose start is done: people are let in a moment before that."""
        workspace_id = await self.create(name, **more)
        await self.until_open(workspace_id)
        await self.until_status(workspace_id, "running")
        return workspace_id

    async def workspace(self, workspace_id: str) -> dict[str, Any]:
        return dict(await self.api("GET", f"/workspaces/{workspace_id}"))

    async def intent(self, workspace_id: str, verb: str) -> None:
        await self.api("POST", f"/workspaces/{workspace_id}/{verb}")

    async def change(self, workspace_id: str, **change: Any) -> None:
        await self.api("PATCH", f"/workspaces/{workspace_id}", json=change)

    async def until_status(self, workspace_id: str, status: str, *, seconds: float = 60) -> dict[str, Any]:
        async def reached() -> dict[str, Any] | None:
            seen = await self.workspace(workspace_id)
            return seen if seen["status"] == status else None

        found: dict[str, Any] | None = await until(
            reached, seconds=seconds, what=f"{workspace_id} to be {status}"
        )
        assert found is not None
        return found

    # By way of the proxy

    async def navigate(self, path: str) -> httpx.Response:
        return await self.client.get(path, headers=NAVIGATION)

    async def background(self, path: str) -> httpx.Response:
        return await self.client.get(path, headers=BACKGROUND)

    async def until_open(self, workspace_id: str, *, seconds: float = 60) -> None:
        """Until the proxy lets requests through to it."""

        async def answers() -> bool:
            return (await self.background(f"/w/{workspace_id}/")).status_code == 200

        await until(answers, seconds=seconds, what=f"{workspace_id} to answer")

    def socket(
        self, path: str, *, origin: str | None = None, host: str | None = None, cookie: str | None = None
    ) -> "websockets.connect":
        """A WebSocket of a page of this site, or of ``origin``; ``host``: the name asked for, if another."""
        cookie = self.cookie if cookie is None else cookie
        headers = {"Cookie": cookie} if cookie else {}
        return websockets.connect(
            f"ws://{host or urlsplit(self.url).netloc}{path}",
            host="127.0.0.1",
            port=urlsplit(self.url).port,
            origin=websockets.Origin(origin or self.url),
            additional_headers=headers,
            proxy=None,
            ping_interval=None,
        )


async def refused_with(attempt: "websockets.connect") -> int:
    """The status with which a WebSocket was refused."""
    try:
        async with attempt:
            raise AssertionError("the WebSocket was accepted")
    except websockets.InvalidStatus as refusal:
        return refusal.response.status_code


async def coordinators(url: str) -> Mapping[str, Any]:
    """``/health/coordinator``, for counting ticks."""
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await client.get(f"{url}/health/coordinator")
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["coordinators"])


async def ticks_of(url: str, name: str, *, more: int, seconds: float = 60) -> None:
    """Wait until this coordinator has ticked that often again."""
    for _ in range(more):
        before = (await coordinators(url))[name]["last_tick_at"]

        async def ticked(before: str = before) -> bool:
            return bool((await coordinators(url))[name]["last_tick_at"] != before)

        await until(ticked, seconds=seconds, what=f"a tick of {name}")
