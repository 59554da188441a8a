"""A connection's memory of having been let in."""

from codehub.proxy.destinations import Destination
from codehub.proxy.identity import Identity
from codehub.proxy.request import RequestHead
from codehub.proxy.routing import Route


class Pass:
    """Who asked for what and was let in, until when.

    Worth as much as the two entries of ``Access`` it was made from: it ends with the older of them, and
    with any change (``generation``). WebSockets are judged each time.
    """

    __slots__ = ("_generation", "_identity", "_port", "_prefix", "_until", "_workspace_id", "destination")

    def __init__(
        self, route: Route, identity: Identity, destination: Destination, *, until: float, generation: int
    ) -> None:
        self.destination = destination
        self._workspace_id = route.workspace_id
        self._port = route.port
        self._prefix = route.prefix
        self._identity = identity
        self._until = until
        self._generation = generation

    def is_good_for(
        self, request: RequestHead, route: Route, identity: Identity, *, now: float, generation: int
    ) -> bool:
        return (
            self._identity is identity
            and self._workspace_id is route.workspace_id
            and self._prefix == route.prefix
            and self._port == route.port
            and self._generation == generation
            and now < self._until
            and not request.websocket
            and not route.needs_slash
            and not route.own_origin  # there the root may lead elsewhere: judged each time
        )
