"""Parse response heads of upstreams strictly.

A workspace runs untrusted code, so its responses are checked as strictly as requests. Servers repeat the same
heads, so parsed heads are cached for the whole process, but those with secrets (``Set-Cookie``).
"""

from typing import Final

from codehub.proxy.http1.framing import NO_BODY, Body, ChunkedBody, LengthBody, UntilClose
from codehub.proxy.http1.grammar import FIELD_LINE, HOP_BY_HOP, LENGTH, STATUS_LINE, tokens


class BadResponse(Exception):
    """The upstream violates HTTP/1.1.

    The client gets 502, or a reset if it has seen a part of a response.
    """


PLAIN, TAKEN, RESTRICTED, READ = range(4)

# From a workspace: dropped or rewritten by ``upstream/headers.py`` where they reach beyond the workspace.
_RESTRICTED: Final = frozenset(
    {b"set-cookie", b"set-cookie2", b"location", b"service-worker-allowed", b"clear-site-data", b"alt-svc"}
)
_ONCE: Final = frozenset({b"content-length", b"transfer-encoding", b"location"})
_KINDS: Final = (
    dict.fromkeys(HOP_BY_HOP | {b"content-length"}, TAKEN)
    | dict.fromkeys(_RESTRICTED, RESTRICTED)
    | {b"content-type": READ}
)
_MAX_CACHED_HEADS: Final = 256
_MAX_HEAD: Final = 1024
_head_cache: "dict[bytes, ResponseHead]" = {}


class ResponseHead:
    """A parsed response head.

    Shared between exchanges, so immutable; only ``plain`` is filled in at first use.
    """

    __slots__ = (
        "fields",
        "kept",
        "length",
        "minor",
        "plain",
        "restricted",
        "simple_length",
        "start",
        "status",
    )

    def __init__(self, start: bytes, minor: bool, status: int) -> None:
        self.start = start  # the status line, without its end
        self.minor = minor
        self.status = status
        self.fields: dict[bytes, bytes] = {}
        self.kept: list[bytes] = []
        self.restricted: list[tuple[bytes, bytes]] = []  # name, value
        self.length: int | None = None
        self.plain: bytes | None = None  # as sent to the client in the simplest case; see ``client_head``
        # Length of the body if the head needs no rewriting and the connection stays open; else -1.
        self.simple_length = -1

    @property
    def chunked(self) -> bool:
        return b"transfer-encoding" in self.fields

    @property
    def is_stream(self) -> bool:
        return self.fields.get(b"content-type", b"").lower().startswith(b"text/event-stream")

    @property
    def upstream_closes(self) -> bool:
        """Whether the upstream closes its connection after this response."""
        connection = self.fields.get(b"connection")
        if connection is None or connection == b"keep-alive":
            return not self.minor
        return not self.minor or b"close" in tokens(connection)

    def has_body(self, method: bytes) -> bool:
        """Whether a response to ``method`` with this status has a body (RFC 9112, 6.3)."""
        return not (method == b"HEAD" or self.status in (204, 304) or self.status < 200)

    def body(self, method: bytes, *, decode: bool) -> Body:
        """Return a new framer for the response's body. ``decode``: for HTTP/1.0 clients."""
        if not self.has_body(method):
            return NO_BODY
        if self.chunked:
            return ChunkedBody(decode=decode)
        return UntilClose() if self.length is None else LengthBody(self.length)


def read_response(head: bytes) -> ResponseHead:
    """Parse a response head through the cache. Heads with cookies are not cached.

    Polling gets equal heads again and again.
    """
    # Pays for: HTTP through the proxy.
    response = _head_cache.get(head)
    if response is None:
        response = parse_response(head)
        if len(head) <= _MAX_HEAD and b"set-cookie" not in response.fields:
            if len(_head_cache) >= _MAX_CACHED_HEADS:
                _head_cache.clear()
            _head_cache[head] = response
    return response


def recall_response(head: bytes) -> ResponseHead | None:
    """Return a cached response head. Never parses."""
    return _head_cache.get(head)


def parse_response(head: bytes) -> ResponseHead:
    """Parse a response head, up to and including the empty line.

    Raises ``BadResponse``.
    """
    lines = head.split(b"\r\n")
    start = STATUS_LINE.fullmatch(lines[0])
    if start is None:
        raise BadResponse("malformed status line")
    response = ResponseHead(lines[0], start[1] == b"1", int(start[2]))
    fields, kept = response.fields, response.kept
    for line in lines[1:-2]:
        match = FIELD_LINE.fullmatch(line)
        if match is None:
            raise BadResponse("malformed field")
        name, value = match[1].lower(), match[2].rstrip(b" \t")
        kind = _KINDS.get(name, PLAIN)
        if kind == PLAIN:
            kept.append(line)
            continue
        if kind == RESTRICTED:
            response.restricted.append((name, value))
        elif kind == READ:
            kept.append(line)
        if name not in fields:
            fields[name] = value
        elif name in _ONCE:
            raise BadResponse("duplicate field")
        else:
            fields[name] += b", " + value
    connection = fields.get(b"connection")
    if connection is not None and connection.lower() not in (b"keep-alive", b"close", b"upgrade"):
        named = frozenset(tokens(connection))
        response.kept = [line for line in kept if line[: line.index(b":")].lower() not in named]
    _frame(response, fields)
    if response.length is not None and response.has_body(b"GET") and not response.restricted:
        response.simple_length = -1 if response.upstream_closes else response.length
    return response


def _frame(response: ResponseHead, fields: dict[bytes, bytes]) -> None:
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None and (length is not None or not response.minor or coding.lower() != b"chunked"):
        raise BadResponse("ambiguous length")
    if length is not None:
        if LENGTH.fullmatch(length) is None:
            raise BadResponse("bad length")
        response.length = int(length)
