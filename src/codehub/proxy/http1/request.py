"""Parse request heads strictly, with our own grammar and with llhttp.

A field block has to satisfy our grammar *and* llhttp (through httptools), the parser many upstreams use.
Fields that pass through are forwarded byte for byte; the few that mean something to a proxy are parsed.

``InvalidRequest`` carries the status to answer with.
"""

from typing import Final

import httptools

from codehub.proxy.http1.framing import NO_BODY, Body, ChunkedBody, LengthBody
from codehub.proxy.http1.grammar import ABSOLUTE, FIELD_BLOCK, HOP_BY_HOP, HOST, LENGTH, REQUEST_LINE, tokens


class InvalidRequest(Exception):
    """The request is invalid and is not forwarded.

    ``cause`` is a constant, for the metrics.
    """

    def __init__(self, status: int, cause: str) -> None:
        super().__init__(cause)
        self.status = status
        self.cause = cause


# Not passed through: rewritten by the proxy, or dropped.
_TAKEN: Final = HOP_BY_HOP | {
    b"host",
    b"cookie",
    b"authorization",
    b"content-length",
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-proto",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-prefix",
    b"x-forwarded-server",
    b"x-real-ip",
    b"x-original-url",
    b"x-rewrite-url",
}
# Read by the access policy, and passed through byte for byte.
_READ: Final = frozenset(
    {
        b"accept",
        b"accept-language",
        b"expect",
        b"origin",
        b"purpose",
        b"sec-fetch-dest",
        b"sec-fetch-mode",
        b"sec-fetch-site",
        b"sec-purpose",
        b"sec-websocket-key",
        b"sec-websocket-version",
        b"x-moz",
        b"x-purpose",
    }
)
# Any of them marks a speculative request: the browser prefetches what a person may open next.
_SPECULATION: Final = (b"sec-purpose", b"purpose", b"x-purpose", b"x-moz")
# Sec-Fetch-Dest of a whole tab. ``empty``: sent by the page's service worker, which hides the destination.
_WHOLE_TABS: Final = frozenset({None, b"document", b"empty"})
_ONCE: Final = frozenset(
    {b"host", b"content-length", b"transfer-encoding", b"authorization", b"origin", b"expect", b"upgrade"}
    | {b"sec-fetch-dest", b"sec-fetch-mode", b"sec-fetch-site"}
    | {b"sec-websocket-key", b"sec-websocket-version"}
)
_KINDS: Final = dict.fromkeys(_TAKEN, True) | dict.fromkeys(_READ, False)  # True: not passed through

_REPLAYABLE: Final = frozenset({b"GET", b"HEAD", b"OPTIONS"})
_REFUSED_METHODS: Final = frozenset({b"CONNECT", b"TRACE", b"PRI"})
_SLASH: Final = 0x2F


class Fields:
    """The parsed field block of a request head."""

    __slots__ = ("by_name", "chunked", "closes", "has_body", "host", "kept", "length", "raw", "websocket")

    def __init__(self, raw: bytes) -> None:
        self.raw = raw  # the bytes it was parsed from
        self.by_name: dict[bytes, bytes] = {}
        self.kept: list[bytes] = []
        self.host = b""
        self.length = 0
        self.chunked = False
        self.has_body = False
        self.closes = False
        self.websocket = False  # the fields ask for an upgrade to it


class RequestHead:
    """A parsed request head."""

    __slots__ = ("block", "fields", "host", "method", "minor", "target", "websocket")

    def __init__(self, method: bytes, target: bytes, minor: bool, block: Fields) -> None:
        self.method = method
        self.target = target
        self.minor = minor  # of HTTP/1.x
        self.block = block
        self.fields = block.by_name
        self.host = block.host
        # Other upgrades (such as h2c) are not forwarded: the request is sent without them.
        self.websocket = block.websocket and minor and method == b"GET" and not block.has_body

    @property
    def has_body(self) -> bool:
        return self.block.has_body

    @property
    def is_replayable(self) -> bool:
        """Whether it may be sent twice: safe method, no body.

        Needed when an idle upstream connection turns out to be dead.
        """
        return self.method in _REPLAYABLE and not self.block.has_body and not self.websocket

    @property
    def wants_close(self) -> bool:
        """Whether the connection ends after the response."""
        # HTTP/1.0 gets one response per connection: no client of it depends on keep-alive.
        return self.block.closes or not self.minor

    @property
    def is_speculative(self) -> bool:
        """Whether it is a prefetch, prerender or preview, which no person has asked for."""
        return any(name in self.fields for name in _SPECULATION)

    @property
    def is_navigation(self) -> bool:
        """Whether the response is shown as a page, in a tab or a frame: answer with HTML."""
        if self.websocket or self.is_speculative:
            return False
        mode = self.fields.get(b"sec-fetch-mode")
        if mode is not None:
            return mode == b"navigate"
        return self.method == b"GET" and b"text/html" in self.fields.get(b"accept", b"").lower()

    @property
    def is_change(self) -> bool:
        """Whether its method may change something."""
        return self.method not in _REPLAYABLE

    @property
    def is_visit(self) -> bool:
        """Whether a person opens a page in a whole tab. Nothing else wakes a workspace."""
        is_whole_tab = self.fields.get(b"sec-fetch-dest") in _WHOLE_TABS
        return is_whole_tab and self.method == b"GET" and self.is_navigation

    def body(self) -> Body:
        """Return a new framer for the request's body."""
        block = self.block
        if not block.has_body:
            return NO_BODY
        return ChunkedBody() if block.chunked else LengthBody(block.length)


def parse_request(head: bytes) -> RequestHead:
    """Parse a request head, up to and including the empty line. Raises ``InvalidRequest``."""
    line, _, raw = head.partition(b"\r\n")
    match = REQUEST_LINE.fullmatch(line)
    if match is None:
        raise InvalidRequest(400, "malformed")
    method, target, version = match.groups()
    block = parse_fields(raw)
    request = RequestHead(method, target, version == b"1", block)
    if method in _REFUSED_METHODS:
        raise InvalidRequest(405, "method")
    if not request.minor and block.chunked:
        raise InvalidRequest(400, "ambiguous length")
    if not request.host and request.minor:
        raise InvalidRequest(400, "no host")
    if target[0] != _SLASH:
        _parse_absolute_target(request)
    return request


def parse_fields(raw: bytes) -> Fields:
    """Parse a field block, up to and including the empty line. Raises ``InvalidRequest``."""
    if FIELD_BLOCK.fullmatch(raw) is None:
        raise InvalidRequest(400, "malformed")
    block = Fields(raw)
    _split(raw, block)
    fields = block.by_name
    _frame(block, fields)
    host = fields.get(b"host")
    if host is not None:
        if HOST.fullmatch(host) is None:
            raise InvalidRequest(400, "bad host")
        block.host = host.lower()
    if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise InvalidRequest(417, "expectation")
    connection = tokens(fields.get(b"connection", b""))
    block.closes = b"close" in connection
    block.websocket = b"upgrade" in connection and fields.get(b"upgrade", b"").lower() == b"websocket"
    _check_with_llhttp(raw)
    return block


class _LlhttpCallbacks:
    """The only callback httptools requires."""

    def on_url(self, url: bytes) -> None: ...


_llhttp_callbacks: Final = _LlhttpCallbacks()


def _check_with_llhttp(raw: bytes) -> None:
    try:
        httptools.HttpRequestParser(_llhttp_callbacks).feed_data(b"POST / HTTP/1.1\r\n" + raw)
    except httptools.HttpParserUpgrade:
        pass
    except httptools.HttpParserError:
        raise InvalidRequest(400, "malformed") from None


def _split(raw: bytes, block: Fields) -> None:
    kept, fields = block.kept, block.by_name
    for line in raw.split(b"\r\n")[:-2]:
        name, _, value = line.partition(b":")
        name = name.lower()
        taken = _KINDS.get(name)
        if taken is None:
            if not name.startswith(b"x-codehub-") and not (b"_" in name and _is_disguised(name)):
                kept.append(line)
            continue
        if not taken:
            kept.append(line)
        if name in fields:
            if name in _ONCE:
                raise InvalidRequest(400, "duplicate field")
            fields[name] += (b"; " if name == b"cookie" else b", ") + value.strip(b" \t")
        else:
            fields[name] = value.strip(b" \t")
    connection = fields.get(b"connection")
    if connection is not None and connection.lower() not in (b"keep-alive", b"close", b"upgrade"):
        named = frozenset(tokens(connection))
        block.kept = [line for line in kept if line[: line.index(b":")].lower() not in named]


def _is_disguised(name: bytes) -> bool:
    """Whether CGI-like upstreams would read it as a field we strip: ``X_Forwarded_For``."""
    plain = name.replace(b"_", b"-")
    return plain in _TAKEN or plain.startswith(b"x-codehub-")


def _frame(block: Fields, fields: dict[bytes, bytes]) -> None:
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise InvalidRequest(400, "ambiguous length")
        if coding.lower() != b"chunked":
            raise InvalidRequest(501, "transfer coding")
        block.chunked = True
    elif length is not None:
        if LENGTH.fullmatch(length) is None:
            raise InvalidRequest(400, "bad length")
        block.length = int(length)
    block.has_body = block.chunked or block.length > 0


def _parse_absolute_target(request: RequestHead) -> None:
    """Reduce an absolute target to its path. Its authority must equal the Host field."""
    if request.target == b"*" and request.method == b"OPTIONS":
        return
    match = ABSOLUTE.fullmatch(request.target)
    if match is None or match[1].lower() != request.host:
        raise InvalidRequest(400, "bad target")
    path = match[2] or b"/"
    request.target = path if path[0] == _SLASH else b"/" + path
