"""Split the tar stream of a home into its members while it is packed, and make members for further hardlinks.

The stream comes from our own tar, so this parser trusts it; what comes from a store is checked by ``members``.
"""

import os
from typing import NamedTuple

from codehub.archives.members import BLOCK, HostileArchive, parse_number, ustar_name

_READ_BYTES = 1024 * 1024
_EXTENDED = (b"x", b"L", b"K")


class Header(NamedTuple):
    """All header blocks of one member. ``data_bytes``: what follows, padding included."""

    name: bytes
    link: bytes
    raw: bytes
    data_bytes: int


class MemberReader:
    """Reads members from a pipe. Blocking."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""
        self._position = 0
        self.bytes_read = 0

    def header(self) -> Header | None:
        """Read the headers of the next member; None at the end of the stream."""
        length = 0
        records: dict[bytes, bytes] = {}
        while True:
            if not self._fill(length + BLOCK):
                return None
            at = self._position + length
            block = self._buffer[at : at + BLOCK]
            kind = block[156:157]
            if kind == b"\0" and not any(block):
                return None
            size = parse_number(block[124:136])
            length += BLOCK
            if kind not in _EXTENDED:
                break
            padded = padded_to_block(size)
            if not self._fill(length + padded):
                return None
            at = self._position + length
            _read_extension(kind, self._buffer[at : at + size], records)
            length += padded
        raw = self._buffer[self._position : self._position + length]
        self._position += length
        name = records.get(b"GNU.sparse.name") or records.get(b"path") or ustar_name(block)
        link = records.get(b"linkpath") or block[157:257].split(b"\0", 1)[0]
        return Header(name, link, raw, padded_to_block(int(records.get(b"size", size))))

    def data(self, length: int) -> bytes:
        """Read exactly ``length`` bytes of data. Raises ``EOFError``."""
        if not self._fill(length):
            raise EOFError
        self._position += length
        return self._buffer[self._position - length : self._position]

    def drain(self) -> None:
        """Read to the end, so that tar can end too."""
        while os.read(self._descriptor, _READ_BYTES):
            pass

    def _fill(self, length: int) -> bool:
        """Have ``length`` bytes in the buffer; False if the stream ends before."""
        missing = length - (len(self._buffer) - self._position)
        if missing <= 0:
            return True
        parts = [self._buffer[self._position :]]
        while missing > 0:
            piece = os.read(self._descriptor, _READ_BYTES)
            if not piece:
                break
            parts.append(piece)
            missing -= len(piece)
            self.bytes_read += len(piece)
        self._buffer, self._position = b"".join(parts), 0
        return missing <= 0


def _read_extension(kind: bytes, raw: bytes, records: dict[bytes, bytes]) -> None:
    if kind == b"L":
        records[b"path"] = raw.split(b"\0", 1)[0]
    elif kind == b"K":
        records[b"linkpath"] = raw.split(b"\0", 1)[0]
    elif b"path=" in raw or b"size=" in raw or b"name=" in raw:
        position = 0
        while position < len(raw):
            space = raw.index(b" ", position)
            end = position + int(raw[position:space])
            if end <= space:
                raise HostileArchive("a malformed extended header")
            keyword, _, value = raw[space + 1 : end - 1].partition(b"=")
            records[keyword] = value
            position = end


def padded_to_block(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def hardlink_member(name: bytes, target: bytes, status: os.stat_result) -> bytes:
    """Make the member of a further name of a file, as tar writes it."""
    records = b""
    if len(name) > 100:
        records += _record(b"path", name)
    if len(target) > 100:
        records += _record(b"linkpath", target)
    member = b""
    if records:
        member = _block(b"PaxHeaders", b"x", size=len(records))
        member += records.ljust(padded_to_block(len(records)), b"\0")
    return member + _block(name[:100], b"1", link=target[:100], status=status)


def _record(keyword: bytes, value: bytes) -> bytes:
    length = len(keyword) + len(value) + 3
    total = length + len(str(length))
    if length + len(str(total)) != total:
        total = length + len(str(total))
    return b"%d %s=%s\n" % (total, keyword, value)


def _block(
    name: bytes, kind: bytes, *, size: int = 0, link: bytes = b"", status: os.stat_result | None = None
) -> bytes:
    mode, uid, gid, mtime = (
        (status.st_mode & 0o7777, status.st_uid, status.st_gid, max(0, int(status.st_mtime)))
        if status
        else (0o644, 0, 0, 0)
    )
    block = b"".join(
        (
            name.ljust(100, b"\0"),
            b"%07o\0%07o\0%07o\0" % (mode, uid & 0o7777777, gid & 0o7777777),
            b"%011o\0%011o\0" % (size, mtime & 0o77777777777),
            b"        ",
            kind,
            link.ljust(100, b"\0"),
            b"ustar\x0000",
        )
    ).ljust(BLOCK, b"\0")
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]
