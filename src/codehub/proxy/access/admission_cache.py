"""Cache admitted requests, to forward repetitions without parsing them again.

A cached admission is valid no longer than the directory cache's entries it was made from.
"""

import re
from typing import Final

from codehub.proxy.access.fetch_metadata import is_from_own_page
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.routing import Route
from codehub.proxy.upstream.destinations import Destination
from codehub.proxy.upstream.exchange import ClientSide, Exchange

# What ``grammar.REQUEST_LINE`` allows, for methods that may use an idle upstream connection.
_START: Final = re.compile(rb"(GET|HEAD|OPTIONS) ([\x21\x22\x24-\x7e]++)")
_VERSION: Final = b" HTTP/1.1\r\n"
_MAX_BLOCK: Final = 4096  # bytes of fields; a connection holds up to 4 blocks while it is busy


class CachedAdmission:
    """An admitted request: field block, destination, head for the upstream.

    Valid until the older of the two ``DirectoryCache`` entries it was made from expires, or until any change is
    reported (``generation``). Matches heads whose field block is equal byte for byte (cookies included) and whose
    target is in the same workspace and port. Then only method and path differ: the fields are not parsed again,
    and of the head for the upstream only the first line is written anew. A head equal to the last one in full
    reuses its exchange too, if that one ended cleanly (not ``spent``).
    """

    __slots__ = (
        "_has_port",
        "_inside",
        "_last",
        "_last_head",
        "_longest",
        "_prefix_size",
        "_rest",
        "_tail",
        "block",
        "destination",
        "generation",
        "is_navigation",
        "until",
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
        longest: int,
    ) -> None:
        self.destination = destination
        self.until = until
        self.generation = generation
        self.block = request.block
        self.is_navigation = request.is_navigation  # by its fields; changes are not cached
        self._tail = _VERSION + request.block.raw
        self._rest = _VERSION + rest
        self._inside = route.prefix + b"/"
        self._prefix_size = len(route.prefix)
        self._has_port = route.port is not None
        self._longest = longest
        self._last_head = b""
        self._last: Exchange | None = None

    @staticmethod
    def may_be_kept(request: RequestHead, route: Route, *, scheme: bytes) -> bool:
        """Whether repetitions of this request may skip the access policy.

        Not WebSockets; not workspace hosts, whose root may be redirected; not links from other sites, which may
        only GET, while a cached admission is good for HEAD and OPTIONS too; not navigations, whose answer may get
        the tab's script.
        """
        if not is_from_own_page(request, scheme) or request.fields.get(b"sec-fetch-dest") == b"document":
            return False
        block = request.block
        special = block.websocket or block.has_body or block.closes or not block.host
        if special or len(block.raw) > _MAX_BLOCK:
            return False
        return not route.needs_slash and not route.on_workspace_host

    def exchange_for(self, head: bytes, client: ClientSide) -> Exchange | None:
        """Return an exchange for ``head`` if it is exactly one whole head that matches."""
        # Pays for: HTTP through the proxy, the same path again. A page that polls repeats its whole head.
        if head == self._last_head:
            last = self._last
            if last is not None and not last.spent:
                return last
        if len(head) > self._longest or not head.endswith(self._tail):
            return None
        match = _START.fullmatch(head, 0, len(head) - len(self._tail))
        if match is None:
            return None
        method, target = match.groups()
        # As the router would decide: the same workspace, and the same port of it.
        if not target.startswith(self._inside):
            return None
        path = target[self._prefix_size :]
        if not self._has_port and path.startswith(b"/port/"):
            return None
        policy = self.destination.policy
        up = method + b" " + (path if policy.strips else target) + self._rest
        exchange = Exchange(client, RequestHead(method, target, True, self.block), up, policy)
        self._last_head, self._last = head, exchange
        return exchange
