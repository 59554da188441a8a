"""Start, sweep and drain the proxy: one engine on one event loop.

Several processes may listen on one port (``reuse_port``). ``stop`` drains: no new connections; requests in
flight finish, and so do requests that arrive within 0.5 s on open connections; event streams are closed at once, and
both ends of a WebSocket are told (``upstream/going_away``). Their clients reconnect, to another process or the next.
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
SWEEP_EMPTY_SECONDS = 10.0  # sweep interval without connections
LATE_REQUESTS_SECONDS = 0.5  # for requests that were already sent when draining began

log = structlog.get_logger(__name__)


class ProxyServer:
    """A listening proxy.

    ``start``, then ``stop``; ``metrics`` may be read at any time.
    """

    def __init__(self, ports: Interfaces, settings: ProxySettings, *, metrics: Metrics | None = None) -> None:
        self._ports = ports
        self._settings = settings
        self.metrics = metrics or Metrics()
        self._server: asyncio.Server | None = None
        self._engine: ProxyEngine | None = None
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def port(self) -> int:
        """The TCP port of the first listening socket."""
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
        """Listen on ``sock``, or on ``host`` and ``port``, and start the background tasks."""
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
        """Drain for at most ``drain_seconds``, abort the rest, release all leases.

        Idempotent.
        """
        engine, server = self._engine, self._server
        self._engine = self._server = None  # so that a second call does nothing
        if engine is None or server is None:
            return
        ends_at = engine.loop.time() + drain_seconds
        server.close()
        engine.draining = True
        for connection in list(engine.connections):
            connection.drain()
        await _until(engine.empty, seconds=min(LATE_REQUESTS_SECONDS, drain_seconds))
        for connection in list(engine.connections):
            connection.close_if_idle()
        await _until(engine.empty, seconds=drain_seconds)
        for connection in list(engine.connections):
            connection.cut()
        await _until(engine.pool.none_leaving, seconds=max(0.0, ends_at - engine.loop.time()))
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
            # Without connections only caches and idle upstreams have to expire.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_EMPTY_SECONDS):
                    await engine.occupied.wait()
            await asyncio.sleep(interval)
            engine.sweep(interval)


async def _until(event: asyncio.Event, *, seconds: float) -> None:
    """Wait for ``event``, for at most ``seconds``."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
