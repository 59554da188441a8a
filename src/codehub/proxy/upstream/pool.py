"""Pool upstream connections per workspace and address.

A connection is reused only if its last response ended exactly where its framing said. The pool's key holds the
workspace's id beside the address, so a workspace that gets the address of another never gets its connections.
An idle connection that sends bytes is discarded.
"""

import asyncio
import socket
from collections.abc import Hashable
from typing import Protocol, cast
from weakref import WeakValueDictionary

from codehub.kit.unix_sockets import connect_without_links
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import ProxySettings, SocketAddress, TcpAddress


class ConnectFailed(Exception):
    """The upstream accepted no connection."""


class UpstreamUser(Protocol):
    """Receives the events of an upstream connection in use."""

    def upstream_data(self, data: bytes) -> None: ...

    def upstream_eof(self) -> bool: ...

    def upstream_full(self, *, full: bool) -> None: ...

    def upstream_lost(self, exc: Exception | None) -> None: ...


class UpstreamConnection(asyncio.Protocol):
    """One upstream connection. Its events go to ``exchange`` while that is set."""

    __slots__ = ("_pool", "exchange", "idle_connections", "idle_since", "transport", "used")

    def __init__(self, pool: "UpstreamPool", idle_connections: "IdleConnections") -> None:
        self._pool = pool
        self.idle_connections = idle_connections
        self.exchange: UpstreamUser | None = None
        self.used = False  # has completed an exchange
        self.idle_since = 0.0
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        if self.exchange is None:
            self._pool.discard(self)
        else:
            self.exchange.upstream_data(data)

    def eof_received(self) -> bool:
        return self.exchange is not None and self.exchange.upstream_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        exchange, self.exchange = self.exchange, None
        self._pool.closed(self)
        if exchange is not None:
            exchange.upstream_lost(exc)

    def pause_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.upstream_full(full=True)

    def resume_writing(self) -> None:
        if self.exchange is not None:
            self.exchange.upstream_full(full=False)

    def release(self) -> None:
        """Return the connection to the pool, after an exchange that ended cleanly."""
        self.exchange = None
        self._pool.keep(self)

    def leave(self) -> None:
        """End by itself: it was told that the proxy ends, and has another protocol for its last bytes."""
        self.exchange = None
        self._pool.leave(self)

    def drop(self) -> None:
        """Abort the connection. Its exchange gets no further events."""
        self.exchange = None
        self._pool.discard(self)


class IdleConnections:
    """The idle connections to one upstream, the most recently used last."""

    __slots__ = ("__weakref__", "idle")

    def __init__(self) -> None:
        self.idle: list[UpstreamConnection] = []


class UpstreamPool:
    """All upstream connections of one event loop, idle and in use."""

    def __init__(self, settings: ProxySettings, metrics: Metrics) -> None:
        self._settings = settings
        self._size = settings.pool_size
        self._metrics = metrics
        # Weak: an entry lives while a connection or a destination references it.
        self._idle_connections: WeakValueDictionary[Hashable, IdleConnections] = WeakValueDictionary()
        self._open: set[UpstreamConnection] = set()
        self._leaving: set[UpstreamConnection] = set()
        self.none_leaving = asyncio.Event()
        self.none_leaving.set()
        self._loop = asyncio.get_running_loop()

    def idle_connections(self, key: Hashable) -> IdleConnections:
        """Return the entry of ``key``, the same object for all who hold it."""
        idle_connections = self._idle_connections.get(key)
        if idle_connections is None:
            idle_connections = self._idle_connections[key] = IdleConnections()
        return idle_connections

    def take(self, idle_connections: IdleConnections) -> UpstreamConnection | None:
        """Take the most recently used idle connection: it is the least likely to be dead."""
        idle = idle_connections.idle
        while idle:
            connection = idle.pop()
            if not connection.transport.is_closing():
                self._metrics.upstream_reused_total += 1
                return connection
        return None

    async def connect(self, idle_connections: IdleConnections, address: SocketAddress) -> UpstreamConnection:
        """Open a connection within ``connect_timeout``. Raises ``ConnectFailed``."""
        settings = self._settings
        self._metrics.upstream_connects_total += 1

        def make() -> UpstreamConnection:
            return UpstreamConnection(self, idle_connections)

        try:
            async with asyncio.timeout(settings.connect_timeout):
                if isinstance(address, TcpAddress):
                    _, made = await self._loop.create_connection(make, address.host, address.port)
                elif address.follow_links:
                    _, made = await self._loop.create_unix_connection(make, address.path)
                else:
                    sock = connect_without_links(address.path)
                    _, made = await self._loop.create_unix_connection(make, sock=sock)
        except OSError as error:  # TimeoutError is one
            self._metrics.upstream_connect_failures_total += 1
            raise ConnectFailed(str(error)) from error
        return made

    async def adopt(self, idle_connections: IdleConnections, sock: socket.socket) -> UpstreamConnection:
        """Use a connected Unix socket as an upstream connection. Raises ``ConnectFailed``."""
        self._metrics.upstream_connects_total += 1
        try:
            _, made = await self._loop.create_unix_connection(
                lambda: UpstreamConnection(self, idle_connections), sock=sock
            )
        except OSError as error:
            sock.close()
            raise ConnectFailed(str(error)) from error
        return made

    def opened(self, connection: UpstreamConnection) -> None:
        self._open.add(connection)
        connection.idle_since = self._loop.time()
        transport = connection.transport
        transport.set_write_buffer_limits(self._settings.write_high, self._settings.write_low)
        keep_alive(transport)

    def closed(self, connection: UpstreamConnection) -> None:
        self._open.discard(connection)
        self._leaving.discard(connection)
        if not self._leaving:
            self.none_leaving.set()
        self._forget(connection)

    def leave(self, connection: UpstreamConnection) -> None:
        """Wait for a connection that ends by itself (``none_leaving``)."""
        connection.idle_since = self._loop.time()  # it does not expire meanwhile
        self._leaving.add(connection)
        self.none_leaving.clear()

    def keep(self, connection: UpstreamConnection) -> None:
        """Keep a connection as idle, or abort it if ``pool_size`` are kept already."""
        if connection.transport.is_closing():
            return
        idle = connection.idle_connections.idle
        if len(idle) >= self._size:
            connection.transport.abort()
            return
        connection.used = True
        connection.idle_since = self._loop.time()
        idle.append(connection)

    def discard(self, connection: UpstreamConnection) -> None:
        """Abort a connection and stop offering it."""
        self._forget(connection)
        connection.transport.abort()

    def expire(self, now: float) -> None:
        """Discard connections idle for ``pool_idle`` or longer."""
        oldest = now - self._settings.pool_idle
        for connection in list(self._open):
            # Without an exchange: idle, or its client left while it was connecting.
            if connection.exchange is None and connection.idle_since <= oldest:
                self.discard(connection)

    def close(self) -> None:
        for connection in list(self._open):
            connection.transport.abort()

    def _forget(self, connection: UpstreamConnection) -> None:
        if connection in connection.idle_connections.idle:
            connection.idle_connections.idle.remove(connection)


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """Enable TCP keep-alive.

    An idle tunnel has no timeout, so the kernel must find dead peers.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_KEEPIDLE"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
