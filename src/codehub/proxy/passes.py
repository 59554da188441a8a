"""A connection's memory of having been let in."""

from codehub.proxy.destinations import Destination
from codehub.proxy.request import RequestHead
from codehub.proxy.routing import Route


class Pass:
    """Who asked for what and was let in, until when, and what was written to the upstream for it.

    Worth as much as the two entries of ``Access`` it was made from: it ends with the older of them, and
    with any change (``generation``). It holds for requests with the very same fields (cookies and all) to
    the same place; only method and path differ, so of the head for the upstream only the first line does.
    """

    __slots__ = (
        "_block",
        "_generation",
        "_host",
        "_port",
        "_prefix",
        "_rest",
        "_until",
        "_workspace_id",
        "destination",
    )

    def __init__(
        self,
        request: RequestHead,
        route: Route,
        destination: Destination,
        *,
        rest: bytes,
        until: float,
        generation: int,
    ) -> None:
        self.destination = destination
        self._block = request.block
        self._host = request.host
        self._workspace_id = route.workspace_id
        self._port = route.port
        self._prefix = route.prefix
        self._rest = rest
        self._until = until
        self._generation = generation

    @staticmethod
    def may_be_kept(request: RequestHead, route: Route) -> bool:
        """WebSockets are judged each time, and so is an own origin: its root may lead elsewhere."""
        return not request.block.websocket and not route.needs_slash and not route.own_origin

    def is_good_for(self, request: RequestHead, route: Route, now: float, generation: int) -> bool:
        return (
            self._block is request.block
            and self._workspace_id is route.workspace_id
            and self._prefix == route.prefix
            and self._port == route.port
            and self._generation == generation
            and now < self._until
            and not route.needs_slash
            and not route.own_origin
            and self._host == request.host
        )

    def head_for(self, request: RequestHead, route: Route) -> bytes:
        return b"%b %b HTTP/1.1\r\n%b" % (request.method, self.destination.path(route), self._rest)
