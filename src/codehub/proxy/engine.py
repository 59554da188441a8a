"""Hold what all connections of one event loop share: settings, caches, the pool.

The engine also enforces the connection limit, sweeps timeouts and re-checks open tunnels. Connections import
the engine; the engine knows them only as ``ServedConnection``.
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

TUNNEL_CHECK_INTERVAL = 15.0

log = structlog.get_logger(__name__)


class ServedConnection(Protocol):
    """A client's connection, as the engine sees it."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def is_idle(self) -> bool: ...

    def is_tunnel(self) -> bool: ...

    def sweep(self, now: float, elapsed: float) -> None:
        """Enforce the timeout of the current state. Called about once a second."""

    def drain(self) -> None: ...

    def close_if_idle(self) -> None: ...

    def cut(self) -> None: ...

    async def may_stay_open(self) -> bool: ...


class ProxyEngine:
    """Shared state of all client connections of one event loop.

    Not thread-safe: one loop, one engine.
    """

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
        internal = InternalEndpoints(
            ports, settings, access=self.access, pages=pages, probe=self.probe, destinations=self.destinations
        )
        self.admission = Admission(
            ports,
            settings,
            access=self.access,
            internal=internal,
            pages=pages,
            metrics=metrics,
            destinations=self.destinations,
        )
        self.connections: set[ServedConnection] = set()
        self.empty = asyncio.Event()
        self.empty.set()
        self.occupied = asyncio.Event()
        self._check_tunnels_at = self.loop.time() + TUNNEL_CHECK_INTERVAL
        self._tunnel_check: asyncio.Task[None] | None = None  # held, or it could be collected
        self._trusted = frozenset(address.encode() for address in settings.trusted_proxies)

    def admit(self, connection: ServedConnection) -> bool:
        """Register a new connection; at ``max_connections``, abort an idle one for it.

        False: all are busy, and the caller answers 503 and closes. It is registered even then, because it is
        open until it has lingered.
        """
        self.metrics.connections_total += 1
        room = len(self.connections) < self.settings.max_connections
        if not room:
            idle = next((other for other in self.connections if other.is_idle()), None)
            if idle is not None:
                idle.transport.abort()
                room = True
        if not room:
            self.metrics.connections_refused_total += 1
        if not self.connections:
            # Without clients the sweep runs every 10 s only: idle upstream connections may be overdue.
            self.pool.expire(self.loop.time())
        self.connections.add(connection)
        self.empty.clear()
        self.occupied.set()
        self.metrics.connections_open = len(self.connections)
        return room

    def forget(self, connection: ServedConnection) -> None:
        """Remove a connection that was closed. Idempotent."""
        self.connections.discard(connection)
        if not self.connections:
            self.empty.set()
            self.occupied.clear()
        self.metrics.connections_open = len(self.connections)

    def trusts(self, address: bytes) -> bool:
        """Whether ``X-Forwarded-For`` of this peer is used (``trusted_proxies``)."""
        return address in self._trusted

    async def probe(self, target: WorkspaceTarget) -> bool:
        """Check whether the workspace accepts connections.

        Keeps the connection it made for the next request.
        """
        to = self.destinations.main_port(target)
        if to is None:
            return False
        try:
            connection = await self.connector.connect_once(to)
        except ConnectFailed:
            return False
        connection.release()
        return True

    def sweep(self, elapsed: float) -> None:
        """Enforce timeouts, expire caches and idle upstreams, re-check tunnels when due."""
        now = self.loop.time()
        for connection in list(self.connections):
            try:
                connection.sweep(now, elapsed)
            except Exception:  # one failing connection must not end the sweep of all others
                log.exception("connection not swept")
                connection.cut()
        if self.access.users_changed or now >= self._check_tunnels_at:
            self.access.users_changed = False
            self._check_tunnels_at = now + TUNNEL_CHECK_INTERVAL
            self._tunnel_check = self.loop.create_task(self._check_tunnels())
        self.pool.expire(now)
        self.access.expire(now)

    async def _check_tunnels(self) -> None:
        """Close tunnels whose person was signed out, disabled or lost access since they were opened."""
        for connection in [connection for connection in self.connections if connection.is_tunnel()]:
            try:
                allowed = await connection.may_stay_open()
            except Exception as error:  # noqa: BLE001 - a failed lookup must not close tunnels; the next check follows
                log.warning("open tunnels not checked", error=repr(error))
                return
            if not allowed:
                connection.cut()
