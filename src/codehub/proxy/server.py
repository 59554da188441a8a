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

from codehub.proxy.access.admission import Admission
from codehub.proxy.access.cache import DirectoryCache
from codehub.proxy.access.internal_endpoints import InternalEndpoints
from codehub.proxy.client_connection import ClientConnection
from codehub.proxy.identity import CookieNames
from codehub.proxy.interfaces import Interfaces, WorkspaceTarget
from codehub.proxy.leases import LeaseTracker
from codehub.proxy.metrics import Metrics
from codehub.proxy.pages import Pages
from codehub.proxy.routing import Router
from codehub.proxy.settings import ProxySettings
from codehub.proxy.upstream.connector import Connector
from codehub.proxy.upstream.destinations import Destinations
from codehub.proxy.upstream.pool import ConnectFailed, UpstreamPool
from codehub.proxy.upstream.relay import Relay

BACKLOG = 1024
SWEEP_EMPTY_SECONDS = 10.0
LAST_REQUESTS = 0.5  # seconds for requests that were on their way when the draining began
JUDGE_AGAIN = 15.0

log = structlog.get_logger(__name__)


class ProxyEngine:
    """What all connections of one loop share."""

    def __init__(self, ports: Interfaces, settings: ProxySettings, metrics: Metrics) -> None:
        self.loop = asyncio.get_running_loop()
        self.settings = settings
        self.metrics = metrics
        self.draining = False
        self.scheme = settings.scheme.encode()
        self.public_authority = settings.public_url.partition("://")[2].strip("/").lower().encode()
        self.cookies = CookieNames.of(secure=settings.secure)
        self.workspace_hosts = settings.base_domain is not None
        self.router = Router(settings)
        self.pool = UpstreamPool(settings, metrics)
        self.connector = Connector(self.pool, ports.directory, settings, metrics)
        self.relay = Relay.open(self.loop) if settings.use_relay else None
        self.activity = LeaseTracker(ports.activity, settings, metrics)
        self.destinations = Destinations(self.pool, self.activity, settings.api)
        self.api = self.destinations.api()
        self.access = DirectoryCache(ports.directory, settings, metrics)
        pages = Pages(settings)
        own = InternalEndpoints(
            ports, settings, access=self.access, pages=pages, probe=self.probe, destinations=self.destinations
        )
        self.admission = Admission(
            ports,
            settings,
            access=self.access,
            own=own,
            pages=pages,
            metrics=metrics,
            destinations=self.destinations,
        )
        self.connections: set[ClientConnection] = set()
        self.empty = asyncio.Event()
        self.empty.set()
        self.occupied = asyncio.Event()
        self._judge_at = self.loop.time() + JUDGE_AGAIN
        self._judging: asyncio.Task[None] | None = None  # held, or it could vanish half-way
        self._trusted = frozenset(address.encode() for address in settings.trusted_proxies)

    def admit(self, connection: ClientConnection) -> bool:
        """Take a new connection, at the price of one that is doing nothing if there are too many."""
        self.metrics.connections_total += 1
        room = len(self.connections) < self.settings.max_connections
        if not room:
            resting = next((other for other in self.connections if other.is_idle()), None)
            if resting is not None:
                resting.transport.abort()
                room = True
        if not room:
            self.metrics.connections_refused_total += 1
        if not self.connections:
            self.pool.expire(self.loop.time())  # nobody looked after it so closely meanwhile
        self.connections.add(connection)
        self.empty.clear()
        self.occupied.set()
        self.metrics.connections_open = len(self.connections)
        return room

    def left(self, connection: ClientConnection) -> None:
        self.connections.discard(connection)
        if not self.connections:
            self.empty.set()
            self.occupied.clear()
        self.metrics.connections_open = len(self.connections)

    def trusts(self, address: bytes) -> bool:
        return address in self._trusted

    async def probe(self, target: WorkspaceTarget) -> bool:
        """Does the workspace accept connections? The one made to find out is kept for the next request."""
        to = self.destinations.door_of(target)
        if to is None:
            return False
        try:
            connection = await self.connector.connect_once(to)
        except ConnectFailed:
            return False
        connection.release()
        return True

    def sweep(self, elapsed: float) -> None:
        now = self.loop.time()
        for connection in list(self.connections):
            try:
                connection.sweep(now, elapsed)
            except Exception:  # one connection's trouble must not end the care for all others
                log.exception("a connection could not be looked after")
                connection.cut()
        if self.access.people_changed or now >= self._judge_at:
            self.access.people_changed = False
            self._judge_at = now + JUDGE_AGAIN
            self._judging = self.loop.create_task(self._judge_tunnels())
        self.pool.expire(now)
        self.access.expire(now)

    async def _judge_tunnels(self) -> None:
        """A WebSocket outlives the look at who opened it: whoever is signed out or disabled loses it here."""
        for connection in [connection for connection in self.connections if connection.is_tunnel()]:
            try:
                welcome = await connection.is_still_welcome()
            except Exception as error:  # noqa: BLE001 - not knowing is no reason to cut people off
                log.warning("open sockets not judged", error=repr(error))
                return
            if not welcome:
                connection.cut()


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
