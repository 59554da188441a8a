"""A connection's memory of having been let in, and the short way it opens for the requests that follow."""

import re
from typing import Final

from codehub.proxy.access.fetch_metadata import is_from_own_page
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.routing import Route
from codehub.proxy.upstream.destinations import Destination
from codehub.proxy.upstream.exchange import ClientSide, Exchange

# What ``grammar.REQUEST_LINE`` allows, for methods that may go over a kept connection.
_START: Final = re.compile(rb"(GET|HEAD|OPTIONS) ([\x21\x22\x24-\x7e]++)")
_VERSION: Final = b" HTTP/1.1\r\n"


class CachedAdmission:
    """Who asked for what and was let in, until when, and what was written to the upstream for it.

    Worth as much as the two entries of ``DirectoryCache`` it was made from: it ends with the older of them, and
    with any change (``generation``). It holds for heads with the very same fields (cookies and all, byte for
    byte) to the same place. Only method and path differ then, so the fields are not read again, and of the
    head for the upstream only the first line is new. A head that repeats the last one in full takes over
    its exchange too, if that one ended as cleanly as it began.
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
        """WebSockets are judged each time, and so is an own origin: its root may lead elsewhere.

        So is what another site's page led here: it may GET, and a pass is for HEAD and OPTIONS too.
        """
        if not is_from_own_page(request, scheme):
            return False
        block = request.block
        special = block.websocket or block.has_body or block.closes or not block.raw or not block.host
        return not special and not route.needs_slash and not route.on_workspace_host

    def exchange_for(self, head: bytes, client: ClientSide) -> Exchange | None:
        """If ``head`` is exactly one whole head this pass is good for: an exchange that carries it on."""
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
        # What the router would find out: the same workspace, and the same port of it.
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
