"""The proxy as a server: one engine on one loop, several of them on one port (``reuse_port``).

Start it in a process of its own or inside the all-in-one server. ``stop`` drains: no new connections,
requests under way finish, and so do those that arrive within a moment on a connection that is open already;
WebSockets and event streams are closed at once (their clients come back to whoever serves by then).
"""

import asyncio
import contextlib
import socket
from collections.abc import Callable

import structlog

from codehub.proxy.client_connection import ClientConnection
from codehub.proxy.engine import ProxyEngine
from codehub.proxy.interfaces import Interfaces
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import ProxySettings

BACKLOG = 1024
SWEEP_EMPTY_SECONDS = 10.0
LAST_REQUESTS = 0.5  # seconds for requests that were on their way when the draining began

log = structlog.get_logger(__name__)


class ProxyServer:
    """``start``, then ``stop``. ``metrics`` may be read at any time."""

    def __init__(self, ports: Interfaces, settings: ProxySettings, *, metrics: Metrics | None = None) -> None:
        self._ports = ports
        self._settings = settings
        self.metrics = metrics or Metrics()
        self._server: asyncio.Server | None = None
        self._engine: ProxyEngine | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The port it listens on (of the first socket)."""
        if self._server is None:
            raise RuntimeError("not started")
        return int(self._server.sockets[0].getsockname()[1])

    async def start(
        self,
        *,
        sock: socket.socket | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        reuse_port: bool = False,
    ) -> None:
        engine = self._engine = ProxyEngine(self._ports, self._settings, self.metrics)
        make: Callable[[], ClientConnection] = lambda: ClientConnection(engine)  # noqa: E731
        if sock is not None:
            self._server = await engine.loop.create_server(make, sock=sock, backlog=BACKLOG)
        else:
            self._server = await engine.loop.create_server(
                make, host, port, reuse_port=reuse_port, backlog=BACKLOG
            )
        self._tasks = [
            asyncio.create_task(engine.activity.run()),
            asyncio.create_task(self._sweep(engine)),
        ]

    async def stop(self, drain_seconds: float = 10.0) -> None:
        engine, server = self._engine, self._server
        self._engine = self._server = None  # a second call finds nothing left to do
        if engine is None or server is None:
            return
        server.close()
        engine.draining = True
        for connection in list(engine.connections):
            connection.drain()
        await _until_empty(engine, seconds=min(LAST_REQUESTS, drain_seconds))
        for connection in list(engine.connections):
            connection.close_at_rest()
        await _until_empty(engine, seconds=drain_seconds)
        for connection in list(engine.connections):
            connection.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        engine.pool.close()
        if engine.relay is not None:
            engine.relay.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await engine.activity.close()

    async def _sweep(self, engine: ProxyEngine) -> None:
        settings = self._settings
        interval = min(1.0, settings.head_timeout / 4, settings.keep_alive / 4, settings.request_idle / 4)
        while True:
            with contextlib.suppress(TimeoutError):  # nobody here: only what was kept has to expire, in time
                async with asyncio.timeout(SWEEP_EMPTY_SECONDS):
                    await engine.occupied.wait()
            await asyncio.sleep(interval)
            engine.sweep(interval)


async def _until_empty(engine: ProxyEngine, *, seconds: float) -> None:
    """Until nobody is connected any more, at most this long."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await engine.empty.wait()
