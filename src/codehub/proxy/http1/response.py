"""Parse response heads of upstreams strictly.

A workspace runs untrusted code, so its responses are checked as strictly as requests. Servers repeat the same
lines, so parsed lines and heads are cached for the whole process. Lines that hold secrets (``Set-Cookie``) are
not cached.
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
_MAX_CACHED_LINES: Final = 4096
_MAX_LINE: Final = 256

ParsedLine = tuple[int, bytes, bytes]  # kind, name, value
_PLAIN_LINE: Final[ParsedLine] = (PLAIN, b"", b"")
_line_cache: dict[bytes, ParsedLine] = {}
_status_line_cache: dict[bytes, tuple[bool, int]] = {}
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
        "raw",
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
        self.raw = b""  # the bytes it was parsed from; empty if not cached
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
    response = _head_cache.get(head)
    if response is None:
        response = parse_response(head)
        if len(head) <= _MAX_HEAD and b"set-cookie" not in response.fields:
            if len(_head_cache) >= _MAX_CACHED_HEADS:
                _head_cache.clear()
            _head_cache[head] = response
            response.raw = head
    return response


def recall_response(head: bytes) -> ResponseHead | None:
    """Return a cached response head. Never parses."""
    return _head_cache.get(head)


def parse_response(head: bytes) -> ResponseHead:
    """Parse a response head, up to and including the empty line.

    Raises ``BadResponse``.
    """
    lines = head.split(b"\r\n")
    start = lines[0]
    minor, status = _status_line_cache.get(start) or _parse_status_line(start)
    response = ResponseHead(start, minor, status)
    fields, kept, line_cache = response.fields, response.kept, _line_cache
    for line in lines[1:-2]:
        kind, name, value = line_cache.get(line) or _parse_line(line)
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


def _parse_status_line(start: bytes) -> tuple[bool, int]:
    match = STATUS_LINE.fullmatch(start)
    if match is None:
        raise BadResponse("malformed status line")
    parsed = (match[1] == b"1", int(match[2]))
    if len(_status_line_cache) < _MAX_CACHED_LINES and len(start) <= _MAX_LINE:
        _status_line_cache[start] = parsed
    return parsed


def _parse_line(line: bytes) -> ParsedLine:
    match = FIELD_LINE.fullmatch(line)
    if match is None:
        raise BadResponse("malformed field")
    name = match[1].lower()
    kind = _KINDS.get(name, PLAIN)
    parsed = (kind, name, match[2].rstrip(b" \t")) if kind != PLAIN else _PLAIN_LINE
    if name != b"set-cookie" and len(line) <= _MAX_LINE:
        if len(_line_cache) >= _MAX_CACHED_LINES:  # a flood of new lines costs no more than having no cache
            _line_cache.clear()
        _line_cache[line] = parsed
    return parsed


def _frame(response: ResponseHead, fields: dict[bytes, bytes]) -> None:
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None and (length is not None or not response.minor or coding.lower() != b"chunked"):
        raise BadResponse("ambiguous length")
    if length is not None:
        if LENGTH.fullmatch(length) is None:
            raise BadResponse("bad length")
        response.length = int(length)
