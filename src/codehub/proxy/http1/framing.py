"""Find the end of a body: by length, by chunks, or by the end of the connection.

``feed`` takes the bytes read and returns what to forward and what lies behind the end. It never holds back
body bytes, only an unfinished chunk-size line or the trailers, which are checked before they are forwarded.
Only ``done`` makes a transfer complete: a connection that ends before is broken.
"""

from codehub.proxy.http1.grammar import CHUNK_LINE, FIELD_BLOCK, is_forbidden_trailer

MAX_CHUNK_LINE = 1024
MAX_TRAILERS = 8 * 1024


class FramingError(Exception):
    """The bytes contradict the framing they were announced with."""


class LengthBody:
    """A body framed by ``Content-Length``."""

    __slots__ = ("remaining",)

    def __init__(self, length: int) -> None:
        self.remaining = length

    @property
    def done(self) -> bool:
        return self.remaining == 0

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        size = len(data)
        if size <= self.remaining:
            self.remaining -= size
            return data, b""
        cut = self.remaining
        self.remaining = 0
        return data[:cut], data[cut:]


class UntilClose:
    """A response body without framing: it ends with the connection."""

    __slots__ = ()
    done = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        return data, b""


class ChunkedBody:
    """A chunked body, forwarded as it is, or decoded (``decode``) for HTTP/1.0."""

    __slots__ = ("_data_left", "_decode", "_held", "_in_trailers", "done")

    def __init__(self, *, decode: bool = False) -> None:
        self.done = False
        self._decode = decode
        self._data_left = 0  # of the current chunk, its closing CRLF included
        self._held = b""  # an unfinished chunk line, or the trailers so far
        self._in_trailers = False

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        if len(data) < self._data_left - 2:  # wholly inside a chunk: the common case of a large body
            self._data_left -= len(data)
            return data, b""
        out: list[bytes] = []
        while data and not self.done:
            if self._data_left:
                data = self._take_data(data, out)
            elif self._in_trailers:
                data = self._take_trailers(data, out)
            else:
                data = self._take_line(data, out)
        return b"".join(out), data

    def last_chunk(self) -> bytes:
        """What ends the body here. Empty: nothing can, in the middle of a chunk or decoded."""
        is_between = not (self._data_left or self._held or self._in_trailers or self.done)
        return b"0\r\n\r\n" if is_between and not self._decode else b""

    def _take_data(self, data: bytes, out: list[bytes]) -> bytes:
        part, rest = data[: self._data_left], data[self._data_left :]
        # ``part`` may end with a piece of the CRLF that closes the chunk.
        content = part[: max(0, self._data_left - 2)]
        closing = part[len(content) :]
        expected = b"\r\n"[2 - min(2, self._data_left) :]
        if not expected.startswith(closing):
            raise FramingError("a chunk is longer than it said")
        self._data_left -= len(part)
        out.append(content if self._decode else part)
        return rest

    def _take_line(self, data: bytes, out: list[bytes]) -> bytes:
        line, rest = self._until(b"\r\n", data, limit=MAX_CHUNK_LINE)
        if not line:
            return b""
        match = CHUNK_LINE.fullmatch(line)
        if match is None:
            raise FramingError("malformed chunk size")
        size = int(match[1], 16)
        if size == 0:
            self._in_trailers = True
        else:
            self._data_left = size + 2
        if not self._decode:
            out.append(line)
        return rest

    def _take_trailers(self, data: bytes, out: list[bytes]) -> bytes:
        if not self._held and data.startswith(b"\r\n"):
            section, rest = data[:2], data[2:]
        elif not self._held and data == b"\r":
            self._held = data
            return b""
        elif self._held == b"\r" and data.startswith(b"\n"):
            self._held = b""
            section, rest = b"\r\n", data[1:]
        else:
            section, rest = self._until(b"\r\n\r\n", data, limit=MAX_TRAILERS)
            if not section:
                return b""
        if FIELD_BLOCK.fullmatch(section) is None:
            raise FramingError("malformed trailers")
        for line in section.split(b"\r\n")[:-2]:
            if is_forbidden_trailer(line[: line.index(b":")].lower()):
                raise FramingError("a trailer that may not be one")
        if not self._decode:
            out.append(section)
        self.done = True
        return rest

    def _until(self, end: bytes, data: bytes, *, limit: int) -> tuple[bytes, bytes]:
        """Split after ``end``: (up to and including it, rest). The first is empty until ``end`` has arrived."""
        data = self._held + data
        at = data.find(end, 0, limit)
        if at < 0:
            # A bare LF is an error already: refuse it now instead of waiting for more bytes.
            if len(data) >= limit or b"\n" in data.replace(b"\r\n", b""):
                raise FramingError("a chunk line or trailer without end")
            self._held = data
            return b"", b""
        self._held = b""
        at += len(end)
        return data[:at], data[at:]


Body = LengthBody | ChunkedBody | UntilClose

NO_BODY = LengthBody(0)
"""Shared by all messages without a body: it is never mutated, having nothing to count."""
