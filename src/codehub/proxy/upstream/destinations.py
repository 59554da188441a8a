"""Build destinations: the upstream of an admitted request, with its policy."""

from dataclasses import dataclass, replace

from codehub.proxy.interfaces import WorkspaceTarget
from codehub.proxy.leases import LeaseTracker, Requests
from codehub.proxy.routing import Route
from codehub.proxy.settings import SocketAddress
from codehub.proxy.upstream.headers import API_POLICY, HeaderPolicy
from codehub.proxy.upstream.pool import IdleConnections, UpstreamPool


@dataclass(frozen=True, slots=True)
class Destination:
    """An upstream, with what stays the same from request to request.

    The address comes from the directory or the settings; nothing in a request can name one.
    """

    idle_connections: IdleConnections
    address: SocketAddress
    policy: HeaderPolicy
    target: WorkspaceTarget | None = None
    port: int | None = None
    requests: Requests | None = None  # counts them; None: not activity of a workspace
    visit_ends_at: float | None = None  # a visitor's: seconds since the epoch; None: not a visitor

    def path(self, route: Route) -> bytes:
        """Return the path as the upstream expects it, with or without the prefix."""
        return route.path if self.policy.strips or not route.prefix else route.prefix + route.path


class Destinations:
    """Builds destinations from the pool, the lease tracker and the API's address."""

    def __init__(self, pool: UpstreamPool, activity: LeaseTracker, api: SocketAddress) -> None:
        self._pool = pool
        self._activity = activity
        self._api = api

    def api(self, *, extra: bytes = b"") -> Destination:
        """Build the API's destination. ``extra``: whole field lines to add."""
        policy = HeaderPolicy(to_workspace=False, extra=extra) if extra else API_POLICY
        return Destination(self._pool.idle_connections("api"), self._api, policy)

    def workspace(
        self, target: WorkspaceTarget, route: Route, address: SocketAddress | None
    ) -> Destination | None:
        """Build a workspace's destination.

        None while ``address`` (of the requested port) is unknown.
        """
        if address is None:
            return None
        strips = bool(route.prefix) and (target.strip_prefix or route.port is not None)
        policy = HeaderPolicy(to_workspace=True, prefix=route.prefix, strips=strips)
        idle_connections = self._pool.idle_connections((target.id, address))
        return Destination(
            idle_connections, address, policy, target, route.port, self._activity.requests(target.id)
        )

    def shared_port(
        self, target: WorkspaceTarget, route: Route, address: SocketAddress | None
    ) -> Destination | None:
        """Build a visitor's destination: no activity, and nothing shown to them names the workspace.

        None while ``address`` is unknown.
        """
        if address is None or route.port is None:
            return None
        return Destination(
            self._pool.idle_connections((target.id, address)),
            address,
            HeaderPolicy(to_workspace=True),
            replace(target, name=""),
            route.port,
            visit_ends_at=target.shares[route.port].expires_at,
        )

    def main_port(self, target: WorkspaceTarget) -> Destination | None:
        """Build the destination of the workspace's main port, for probes."""
        if target.address is None:
            return None
        idle_connections = self._pool.idle_connections((target.id, target.address))
        return Destination(idle_connections, target.address, HeaderPolicy(to_workspace=True), target)
