import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvloop

from codehub.proxy.interfaces import WorkspaceTarget
from codehub.proxy.server import ProxyServer
from codehub.proxy.settings import ProxySettings, UnixAddress
from tests.integration.proxy.fakes import SESSION, FakeActivity, FakeDirectory, FakeSignIn, make_ports
from tests.integration.proxy.raw import Behaviour, RawClient, RawUpstream, Response, ok, replies

CHANGES = (b"POST", b"PUT", b"PATCH", b"DELETE")


@pytest.fixture(scope="session")
def event_loop_policy() -> asyncio.AbstractEventLoopPolicy:
    policy: asyncio.AbstractEventLoopPolicy = uvloop.EventLoopPolicy()
    return policy


@dataclass
class ProxyEnvironment:
    """A running proxy with its fakes and one workspace behind it."""

    server: ProxyServer
    directory: FakeDirectory
    sign_in: FakeSignIn
    activity: FakeActivity
    upstream: RawUpstream
    api: RawUpstream
    workspace: WorkspaceTarget
    clients: list[RawClient] = field(default_factory=list)

    @property
    def base(self) -> bytes:
        return f"/w/{self.workspace.id}".encode()

    def request(
        self,
        path: bytes = b"/",
        *lines: bytes,
        method: bytes = b"GET",
        body: bytes = b"",
        session: str | None = SESSION,
        version: bytes = b"1.1",
    ) -> bytes:
        """A well-formed request to the workspace in path mode, as a page of this site makes it."""
        fields = [b"Host: 127.0.0.1:%d" % self.server.port, *lines]
        if method in CHANGES and not any(line.lower().startswith(b"origin:") for line in lines):
            fields.append(b"Origin: http://127.0.0.1:%d" % self.server.port)
        if session is not None:
            fields.append(b"Cookie: codehub_session=" + session.encode())
        if body:
            fields.append(b"Content-Length: %d" % len(body))
        head = b"%b %b%b HTTP/%b\r\n%b\r\n\r\n" % (method, self.base, path, version, b"\r\n".join(fields))
        return head + body

    def upgrade(self, path: bytes = b"/socket") -> bytes:
        """The handshake of a WebSocket, from a page of this site."""
        return self.request(
            path,
            b"Origin: http://127.0.0.1:%d" % self.server.port,
            b"Connection: Upgrade",
            b"Upgrade: websocket",
            b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        )

    def carried(self) -> int:
        """How many open WebSockets the relay carries."""
        engine = self.server._engine
        return len(engine.relay) if engine is not None and engine.relay is not None else 0

    def kept(self) -> int:
        """How many connections to upstreams are open."""
        engine = self.server._engine
        return len(engine.pool._open) if engine is not None else 0

    async def client(self) -> RawClient:
        client = await RawClient.connect(self.server.port)
        self.clients.append(client)
        return client

    async def get(self, path: bytes = b"/", *lines: bytes, session: str | None = SESSION) -> Response:
        client = await self.client()
        await client.send(self.request(path, *lines, session=session))
        return await client.response()


MakeEnvironment = Callable[..., Awaitable[ProxyEnvironment]]


@pytest.fixture
async def make_environment(tmp_path: Path) -> AsyncIterator[MakeEnvironment]:
    environments: list[ProxyEnvironment] = []

    async def make(
        behave: Behaviour | None = None,
        *,
        api: Behaviour | None = None,
        target: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> ProxyEnvironment:
        upstream, api_server = RawUpstream(behave or replies(ok())), RawUpstream(api or replies(ok(b"api")))
        await upstream.start()
        socket = str(tmp_path / f"api{len(environments)}.sock")
        await api_server.start(socket)
        ports, directory, sign_in, activity = make_ports()
        fields = {"address": ("127.0.0.1", upstream.port)} | dict(target or {})
        workspace = directory.add(**fields)
        options: dict[str, Any] = {
            "api": UnixAddress(socket),
            "internal_secret": b"shared",
            "connect_delays": (0.0, 0.01),
        }
        server = ProxyServer(ports, ProxySettings(**(options | settings)))
        await server.start()
        environment = ProxyEnvironment(server, directory, sign_in, activity, upstream, api_server, workspace)
        environments.append(environment)
        return environment

    yield make
    for environment in environments:
        for client in environment.clients:
            client.close()
        await environment.server.stop(drain_seconds=0)
        await environment.upstream.stop()
        await environment.api.stop()


@pytest.fixture
async def environment(make_environment: MakeEnvironment) -> ProxyEnvironment:
    return await make_environment()
