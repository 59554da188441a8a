"""The API of one process with everything it needs, for tests to use and to break."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import uvicorn
from fastapi import FastAPI

from codehub.api.app import create_app, end_streams
from codehub.api.dependencies import ApiDependencies, ApiSettings, SshAccess
from codehub.archives.contents_reader import ContentsReader
from codehub.archives.store import ArchiveStore
from codehub.domain.states import Role
from codehub.server.inside_access import RuntimeInsideAccess
from codehub.services.passwords import Passwords
from codehub.services.readiness import Readiness
from codehub.signals.activity import ActivityLog
from codehub.signals.connection import RedisLink
from codehub.signals.live import LiveFeed, LivePublisher
from codehub.signals.rate_limit import SharedRateLimit
from codehub.store.accounts import users
from codehub.store.accounts.users import UserRecord
from codehub.store.db import connections
from codehub.store.db.pool import Pool
from codehub.store.db.session import Sessions
from tests.support import accounts
from tests.support.accounts import PASSWORD
from tests.support.fake_runtime import FakeEngine, FakeRuntime
from tests.support.ssh_access import NoTunnels
from tests.support.waiting import until

BASE_URL = "http://codehub.test"


@dataclass(repr=False)  # it would print half the program
class ApiEnvironment:
    app: FastAPI
    dependencies: ApiDependencies
    sessions: Sessions
    live: LiveFeed
    publisher: LivePublisher
    activity: ActivityLog
    runtime: FakeEngine
    archives: Path
    passwords: Passwords
    clients: list[httpx.AsyncClient] = field(default_factory=list)

    def client(self, **headers: str) -> httpx.AsyncClient:
        """Somebody nobody knows, who sends what a browser on our page sends."""
        client = httpx.AsyncClient(
            transport=httpx.ASGITransport(self.app, raise_app_exceptions=False),
            base_url=BASE_URL,
            headers={"Origin": BASE_URL, **headers},
        )
        self.clients.append(client)
        return client

    async def add_user(self, username: str, role: Role = Role.USER) -> UserRecord:
        return await accounts.add_user(self.sessions, self.passwords, username, role)

    async def sign_in(self, username: str, password: str = PASSWORD) -> httpx.AsyncClient:
        """A browser signed in as this person, who need not exist before."""
        async with self.sessions() as session:
            if await users.find_by_username(session, username) is None:
                await self.add_user(username, Role.ADMIN if username.startswith("admin") else Role.USER)
        client = self.client()
        answer = await client.post("/api/v1/auth/login", json={"username": username, "password": password})
        assert answer.status_code == 200, answer.text
        return client

    async def token_client(self, client: httpx.AsyncClient) -> httpx.AsyncClient:
        """The same person as ``client``, by a token and without a browser's headers."""
        made = await client.post("/api/v1/tokens", json={"name": "test"})
        assert made.status_code == 201, made.text
        tokened = self.client(Authorization=f"Bearer {made.json()['token']}")
        del tokened.headers["Origin"]
        return tokened

    def with_settings(self, **changes: Any) -> FastAPI:
        """A second application over the same parts, told something else."""
        settings = replace(self.dependencies.settings, **changes)
        return create_app(replace(self.dependencies, settings=settings))


async def create_workspace(client: httpx.AsyncClient, name: str = "one", **more: Any) -> dict[str, Any]:
    answer = await client.post("/api/v1/workspaces", json={"name": name, **more})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def user_id(client: httpx.AsyncClient) -> UUID:
    return UUID((await client.get("/api/v1/auth/session")).json()["user"]["id"])


@asynccontextmanager
async def make_environment(
    *,
    pool: Pool,
    sessions: Sessions,
    link: RedisLink,
    passwords: Passwords,
    directory: Path,
    settings: ApiSettings | None = None,
    ssh: SshAccess | None = None,
) -> AsyncIterator[ApiEnvironment]:
    live = LiveFeed(link)
    fake = FakeEngine(images=("fake", "other"))
    archives = directory / "archives"
    archives.mkdir(exist_ok=True)
    activity = ActivityLog(link)
    publisher = LivePublisher(link)
    dependencies = ApiDependencies(
        settings=settings or ApiSettings(base_url=BASE_URL),
        sessions=sessions,
        read_sessions=connections.reading_session_factory(pool),
        live=live,
        runtime=FakeRuntime(fake),
        archives=(store := ArchiveStore.from_url(archives.as_uri())),
        contents=ContentsReader(store, index_directory=directory / "indexes"),
        rate_limit=SharedRateLimit(link),
        passwords=passwords,
        why_not_ready=Readiness(connections.reading_session_factory(pool)).why_not_ready,
        coordinator_health=_no_coordinators,
        activity=activity,
        publisher=publisher,
        ssh=ssh or NoTunnels(),
        inside=RuntimeInsideAccess(FakeRuntime(fake), shown_at="inside", leases=activity),
    )
    app = create_app(dependencies)
    environment = ApiEnvironment(
        app=app,
        dependencies=dependencies,
        sessions=sessions,
        live=live,
        publisher=publisher,
        activity=activity,
        runtime=fake,
        archives=archives,
        passwords=passwords,
    )
    live.start()
    try:
        async with app.router.lifespan_context(app):
            yield environment
    finally:
        for client in environment.clients:
            await client.aclose()
        await live.close()


async def _no_coordinators() -> dict[str, Any]:
    return {"node_id": "test", "uptime_seconds": 1, "is_leader": False, "coordinators": {}}


@asynccontextmanager
async def serve(app: FastAPI) -> AsyncIterator[str]:
    """The application on a real socket, for what needs one: streams, chunks, slow readers."""
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app,
            http="httptools",
            log_config=None,
            access_log=False,
            date_header=False,
            proxy_headers=False,
            lifespan="off",
            ws="websockets-sansio",
        )
        server = uvicorn.Server(config)
        task = asyncio.create_task(server.serve(sockets=[taken]))

        async def started() -> bool:
            return server.started

        await until(started, what="server")
        try:
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        finally:
            end_streams(app)
            server.should_exit = True
            await task
