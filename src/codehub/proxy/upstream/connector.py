"""Connect to upstreams, and verify that the workspace itself listens on the port.

A workspace of the local runtime that listens on a TCP port shares the loopback with the whole machine: any
process can bind the port while the workspace does not listen there. So a connection to a TCP port of a
workspace carries a request only if the same socket of that workspace listened before it was made and after.
A socket of another process counts as nothing listening.

What listens on a container's own loopback refuses connections to the container's address. Then, and only then, a tunnel
to it is tried: it costs a process in the workspace, the address costs nothing.
"""

import asyncio
from collections.abc import Hashable
from uuid import UUID

import structlog

from codehub.proxy.interfaces import Directory
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import ProxySettings, TcpAddress, UnixAddress
from codehub.proxy.upstream.destinations import Destination
from codehub.proxy.upstream.pool import ConnectFailed, UpstreamConnection, UpstreamPool

log = structlog.get_logger(__name__)


class UpstreamConnector:
    """Opens upstream connections, with retries."""

    def __init__(
        self, pool: UpstreamPool, directory: Directory, settings: ProxySettings, metrics: Metrics
    ) -> None:
        self._pool = pool
        self._directory = directory
        self._settings = settings
        self._metrics = metrics

    async def connect(self, to: Destination) -> UpstreamConnection:
        """Connect, with retries (``connect_delays``). A new container opens its port late."""
        delays = self._settings.connect_delays
        for attempt, delay in enumerate(delays, start=1):
            if delay:
                await asyncio.sleep(delay)
            try:
                return await self.connect_once(to)
            except ConnectFailed:
                if attempt == 1 and (tunnelled := await self._through_tunnel(to)) is not None:
                    return tunnelled
                if attempt == len(delays):
                    raise
        raise ConnectFailed("no attempt was made")

    async def connect_once(self, to: Destination) -> UpstreamConnection:
        """Connect without retries.

        Raises ``ConnectFailed`` unless the upstream itself accepted.
        """
        if to.target is None or isinstance(to.address, UnixAddress):
            return await self._pool.connect(to.idle_connections, to.address)
        before = await self._listener(to.target.id, to.address)
        connection = await self._pool.connect(to.idle_connections, to.address)
        after = await self._listener(to.target.id, to.address)
        if after != before:
            connection.drop()
            raise self._failed("the listener changed")
        if connection.transport.is_closing():  # it ended before an exchange could be notified
            raise self._failed("closed at once")
        return connection

    async def _through_tunnel(self, to: Destination) -> UpstreamConnection | None:
        """Connect to a port of the workspace's own loopback; None: there is nothing either."""
        if to.target is None or to.port is None or isinstance(to.address, UnixAddress):
            return None
        try:
            sock = await self._directory.tunnel(to.target.id, to.port)
        except Exception as error:  # noqa: BLE001 - then it is as closed as it was
            log.warning("no tunnel to a port", error=repr(error), workspace_id=str(to.target.id))
            return None
        return await self._pool.adopt(to.idle_connections, sock) if sock is not None else None

    async def _listener(self, workspace_id: UUID, address: TcpAddress) -> Hashable:
        try:
            async with asyncio.timeout(self._settings.connect_timeout):
                found = await self._directory.listener(workspace_id, address)
        except Exception as error:
            log.warning("owner of a port not known", error=repr(error), workspace_id=str(workspace_id))
            raise self._failed(repr(error)) from error
        if found is None:
            raise self._failed("nothing of this workspace listens there")
        return found

    def _failed(self, why: str) -> ConnectFailed:
        self._metrics.upstream_connect_failures_total += 1
        return ConnectFailed(why)
