"""What all client connections of one event loop share: settings, caches, the pool, and care for each other.

Connections know the engine; the engine knows them only as ``ServedConnection``.
"""

import asyncio
from typing import Protocol

import structlog

from codehub.proxy.access.admission import Admission
from codehub.proxy.access.cache import DirectoryCache
from codehub.proxy.access.internal_endpoints import InternalEndpoints
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

JUDGE_AGAIN = 15.0

log = structlog.get_logger(__name__)


class ServedConnection(Protocol):
    """A client's connection, as far as the engine looks after it."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def is_idle(self) -> bool: ...

    def is_tunnel(self) -> bool: ...

    def sweep(self, now: float, elapsed: float) -> None:
        """Called about once a second: enforce every timeout."""

    def drain(self) -> None: ...

    def close_at_rest(self) -> None: ...

    def cut(self) -> None: ...

    async def is_still_welcome(self) -> bool: ...


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
        self.connections: set[ServedConnection] = set()
        self.empty = asyncio.Event()
        self.empty.set()
        self.occupied = asyncio.Event()
        self._judge_at = self.loop.time() + JUDGE_AGAIN
        self._judging: asyncio.Task[None] | None = None  # held, or it could vanish half-way
        self._trusted = frozenset(address.encode() for address in settings.trusted_proxies)

    def admit(self, connection: ServedConnection) -> bool:
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

    def left(self, connection: ServedConnection) -> None:
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
