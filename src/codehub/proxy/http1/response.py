"""Reading an upstream's response head. A workspace is anybody's code: it is trusted as little as a client.

Servers write the same lines again and again, so what a line means is remembered for the whole process:
grammar, name and kind are found out once. Lines that hold secrets (``Set-Cookie``) are not remembered.
"""

from typing import Final

from codehub.proxy.http1.framing import NO_BODY, Body, ChunkedBody, LengthBody, UntilClose
from codehub.proxy.http1.grammar import FIELD_LINE, HOP_BY_HOP, LENGTH, STATUS_LINE, tokens


class BadResponse(Exception):
    """The upstream does not speak HTTP/1.1 as written; the client gets 502 or a broken connection."""


PLAIN, TAKEN, JUDGED, READ = range(4)

# Of a workspace: judged and perhaps rewritten. See ``rewrite``.
_JUDGED: Final = frozenset(
    {b"set-cookie", b"set-cookie2", b"location", b"service-worker-allowed", b"clear-site-data", b"alt-svc"}
)
_ONCE: Final = frozenset({b"content-length", b"transfer-encoding", b"location"})
_KINDS: Final = (
    dict.fromkeys(HOP_BY_HOP | {b"content-length"}, TAKEN)
    | dict.fromkeys(_JUDGED, JUDGED)
    | {b"content-type": READ}
)
_REMEMBERED: Final = 4096
_LONGEST: Final = 256

Meaning = tuple[int, bytes, bytes]  # kind, name, value
_PLAIN_LINE: Final[Meaning] = (PLAIN, b"", b"")
_meanings: dict[bytes, Meaning] = {}
_starts: dict[bytes, tuple[bool, int]] = {}
_HEADS: Final = 256
_LONGEST_HEAD: Final = 1024
_heads: "dict[bytes, ResponseHead]" = {}


class ResponseHead:
    """Shared between exchanges, so never changed once it is read (``plain`` is filled in at first use)."""

    __slots__ = (
        "fields",
        "judged",
        "kept",
        "length",
        "minor",
        "plain",
        "raw",
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
        self.judged: list[tuple[bytes, bytes]] = []  # name, value
        self.length: int | None = None
        self.plain: bytes | None = None  # as it goes to the client in the plainest case; see ``rewrite``
        self.raw = b""  # the bytes it was read from, while they are remembered
        # Of the body, where nothing about the head needs a second look; -1 everywhere else.
        self.simple_length = -1

    @property
    def chunked(self) -> bool:
        return b"transfer-encoding" in self.fields

    @property
    def is_stream(self) -> bool:
        return self.fields.get(b"content-type", b"").lower().startswith(b"text/event-stream")

    @property
    def upstream_closes(self) -> bool:
        connection = self.fields.get(b"connection")
        if connection is None or connection == b"keep-alive":
            return not self.minor
        return not self.minor or b"close" in tokens(connection)

    def has_body(self, method: bytes) -> bool:
        return not (method == b"HEAD" or self.status in (204, 304) or self.status < 200)

    def body(self, method: bytes, *, decode: bool) -> Body:
        if not self.has_body(method):
            return NO_BODY
        if self.chunked:
            return ChunkedBody(decode=decode)
        return UntilClose() if self.length is None else LengthBody(self.length)


def read_response(head: bytes) -> ResponseHead:
    """``parse_response``, remembering the last heads without cookies: polling gets the same ones again."""
    response = _heads.get(head)
    if response is None:
        response = parse_response(head)
        if len(head) <= _LONGEST_HEAD and b"set-cookie" not in response.fields:
            if len(_heads) >= _HEADS:
                _heads.clear()
            _heads[head] = response
            response.raw = head
    return response


def recall_response(head: bytes) -> ResponseHead | None:
    """What ``read_response`` would say, if it has read the very same head before."""
    return _heads.get(head)


def parse_response(head: bytes) -> ResponseHead:
    """``head`` reaches to the empty line that ends it, and with it."""
    lines = head.split(b"\r\n")
    start = lines[0]
    minor, status = _starts.get(start) or _read_start(start)
    response = ResponseHead(start, minor, status)
    fields, kept, meanings = response.fields, response.kept, _meanings
    for line in lines[1:-2]:
        kind, name, value = meanings.get(line) or _read_line(line)
        if kind == PLAIN:
            kept.append(line)
            continue
        if kind == JUDGED:
            response.judged.append((name, value))
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
    if response.length is not None and response.has_body(b"GET") and not response.judged:
        response.simple_length = -1 if response.upstream_closes else response.length
    return response


def _read_start(start: bytes) -> tuple[bool, int]:
    match = STATUS_LINE.fullmatch(start)
    if match is None:
        raise BadResponse("malformed status line")
    meaning = (match[1] == b"1", int(match[2]))
    if len(_starts) < _REMEMBERED and len(start) <= _LONGEST:
        _starts[start] = meaning
    return meaning


def _read_line(line: bytes) -> Meaning:
    match = FIELD_LINE.fullmatch(line)
    if match is None:
        raise BadResponse("malformed field")
    name = match[1].lower()
    kind = _KINDS.get(name, PLAIN)
    meaning = (kind, name, match[2].rstrip(b" \t")) if kind != PLAIN else _PLAIN_LINE
    if name != b"set-cookie" and len(line) <= _LONGEST:
        if len(_meanings) >= _REMEMBERED:  # a flood of new lines costs what no memory would cost
            _meanings.clear()
        _meanings[line] = meaning
    return meaning


def _frame(response: ResponseHead, fields: dict[bytes, bytes]) -> None:
    length, coding = fields.get(b"content-length"), fields.get(b"transfer-encoding")
    if coding is not None and (length is not None or not response.minor or coding.lower() != b"chunked"):
        raise BadResponse("ambiguous length")
    if length is not None:
        if LENGTH.fullmatch(length) is None:
            raise BadResponse("bad length")
        response.length = int(length)
