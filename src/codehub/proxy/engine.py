"""Hold what all connections of one event loop share: settings, caches, the pool.

The engine also enforces the connection limit, sweeps timeouts and re-checks open tunnels and exchanges.
Connections import the engine; the engine knows them only as ``ServedConnection``.
"""

import asyncio
import time
from collections.abc import Collection
from typing import Protocol
from uuid import UUID

import structlog

from codehub.proxy.access.admission import Admission
from codehub.proxy.access.cache import DirectoryCache
from codehub.proxy.access.internal_endpoints import InternalEndpoints
from codehub.proxy.documents.insertion import TabScript
from codehub.proxy.identity import CookieNames
from codehub.proxy.interfaces import Interfaces, WorkspaceTarget
from codehub.proxy.leases import LeaseTracker
from codehub.proxy.metrics import Metrics
from codehub.proxy.pages import Pages
from codehub.proxy.routing import Router
from codehub.proxy.settings import ProxySettings
from codehub.proxy.upstream.connector import UpstreamConnector
from codehub.proxy.upstream.destinations import Destinations
from codehub.proxy.upstream.pool import ConnectFailed, UpstreamPool
from codehub.proxy.upstream.probe import Probe
from codehub.proxy.upstream.relay import Relay

RECHECK_INTERVAL = 15.0

log = structlog.get_logger(__name__)


class ServedConnection(Protocol):
    """A client's connection, as the engine sees it."""

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def workspace_id(self) -> UUID | None:
        """The workspace of the current exchange or tunnel, if any."""

    @property
    def visit_ends_at(self) -> float | None:
        """Until when a visitor may be here, in seconds since the epoch; None: not a visitor."""

    def is_idle(self) -> bool: ...

    def sweep(self, now: float, elapsed: float) -> None:
        """Enforce the timeout of the current state. Called about once a second."""

    def drain(self) -> None: ...

    def close_if_idle(self) -> None: ...

    def cut(self) -> None: ...

    async def recheck(self) -> None:
        """End the current exchange or tunnel if it may not or cannot go on."""


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
        self.connector = UpstreamConnector(self.pool, ports.directory, settings, metrics)
        # Pays for: WebSocket echo. Optional: without a C compiler the event loop carries the messages.
        self.relay = Relay.open(self.loop) if settings.use_relay else None
        self.activity = LeaseTracker(ports.activity, settings, metrics)
        self.destinations = Destinations(self.pool, self.activity, settings.api)
        self.api = self.destinations.api()
        # Pays for: HTTP through the proxy. It also answers for 2 s while the database is away.
        self.access = DirectoryCache(ports.directory, settings, metrics)
        pages = Pages(settings)
        self.tab_script = TabScript(pages.tab_script_path, self.scheme)
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
        self.access.on_change = self._visitors_changed
        self.connections: set[ServedConnection] = set()
        self.visitors: set[ServedConnection] = set()  # those of them that a share lets in
        self._checking_visitors: asyncio.Task[None] | None = None
        self._visitors_again = False  # something changed while they were checked
        self.empty = asyncio.Event()
        self.empty.set()
        self.occupied = asyncio.Event()
        self._recheck_at = self.loop.time() + RECHECK_INTERVAL
        self._rechecking: asyncio.Task[None] | None = None  # held, or it could be collected
        self._trusted = settings.trusted_proxies

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
        return address.decode("latin-1") in self._trusted

    async def probe(self, target: WorkspaceTarget) -> bool:
        """Check whether the workspace's editor answers requests, not only accepts connections."""
        to = self.destinations.main_port(target)
        if to is None:
            return False
        path = b"/" if target.strip_prefix else f"/w/{target.id}/".encode()
        try:
            async with asyncio.timeout(self.settings.probe_timeout):
                connection = await self.connector.connect_once(to)
                return await Probe().answers(connection, host=self.public_authority, path=path)
        except (ConnectFailed, TimeoutError):
            return False

    def sweep(self, elapsed: float) -> None:
        """Enforce timeouts, expire caches and idle upstreams, re-check what is open when due."""
        now = self.loop.time()
        for connection in list(self.connections):
            try:
                connection.sweep(now, elapsed)
            except Exception:  # one failing connection must not end the sweep of all others
                log.exception("connection not swept")
                connection.cut()
        if any((each.visit_ends_at or 0.0) <= time.time() for each in self.visitors):
            self._visitors_changed()
        changed = self.access.take_changed()
        if self.access.users_changed or now >= self._recheck_at:
            self.access.users_changed = False
            self._recheck_at = now + RECHECK_INTERVAL
            self._rechecking = self.loop.create_task(self._recheck(None))
        elif changed:
            self._rechecking = self.loop.create_task(self._recheck(changed))
        self.pool.expire(now)
        self.access.expire(now)

    def _visitors_changed(self) -> None:
        """Check visitors at once, not at the next sweep: a share that was taken back ends within a second."""
        if not self.visitors:
            return
        self._visitors_again = True
        if self._checking_visitors is None or self._checking_visitors.done():
            self._checking_visitors = self.loop.create_task(self._check_visitors())

    async def _check_visitors(self) -> None:
        while self._visitors_again:
            self._visitors_again = False
            for visitor in list(self.visitors):
                try:
                    await visitor.recheck()
                except Exception as error:  # noqa: BLE001 - a failed lookup ends nothing that has not expired
                    log.warning("visitors not checked", error=repr(error))
                    if (visitor.visit_ends_at or 0.0) <= time.time():
                        visitor.cut()

    async def _recheck(self, changed: Collection[UUID] | None) -> None:
        """Re-check exchanges and tunnels with the workspaces that changed; None: with all."""
        for connection in list(self.connections):
            workspace_id = connection.workspace_id
            if workspace_id is None or (changed is not None and workspace_id not in changed):
                continue
            try:
                await connection.recheck()
            except Exception as error:  # noqa: BLE001 - a failed lookup must not end anything; the next check follows
                log.warning("open connections not checked", error=repr(error))
                return
