"""The folders of a generation in format 2: blocks of its manifest.

A block holds the entries of some folders, in the order of the stream, in columns. It is compressed and checked by
itself, so that one folder is listed without reading the others.
"""

import hashlib
import struct
from array import array
from collections.abc import Sequence
from typing import NamedTuple

import zstandard

from codehub.archives.columns import encode_column, fill_column
from codehub.archives.members import HostileArchive

MAGIC = b"CHMANIF2"
BLOCK_ENTRIES = 4096
LEVEL = 6
_BLOCK_COUNTS = struct.Struct("<IIII")


class Entry(NamedTuple):
    """One name in a folder. ``member_bytes``: how much of the stream it takes."""

    name: bytes
    kind: str  # f(ile), d(irectory), l(ink), h(ardlink), p(ipe)
    mode: int
    size: int
    mtime: int  # seconds: for people, and one of several signs of change
    member_bytes: int
    target: bytes = b""  # of a link; of a hardlink: the path of its first name


class Folder(NamedTuple):
    """A run of entries of one folder. ``start``: where its first member begins in the stream."""

    path: bytes  # "." is the home; "" holds the home itself
    start: int
    entries: Sequence[Entry]


class BlockRef(NamedTuple):
    """Where a block of the manifest is. ``stream_start``: where its first member begins."""

    offset: int
    length: int
    content_bytes: int
    stream_start: int
    entries: int
    sha256: bytes
    first_folder: bytes


class BlockWriter:
    """Collects folders and their entries, and encodes them in blocks."""

    def __init__(self) -> None:
        self.data = [MAGIC]
        self.blocks: list[BlockRef] = []
        self.length = len(MAGIC)
        self._folders: list[Folder] = []
        self._entries = 0

    def add(self, path: bytes, start: int, entries: Sequence[Entry]) -> None:
        """Append the entries of a folder, which begin at ``start`` of the stream."""
        for at in range(0, len(entries), BLOCK_ENTRIES):
            part = entries[at : at + BLOCK_ENTRIES]
            self._folders.append(Folder(path, start, part))
            start += sum(entry.member_bytes for entry in part)
            self._entries += len(part)
            if self._entries >= BLOCK_ENTRIES:
                self.flush()

    def flush(self) -> None:
        if not self._folders:
            return
        raw = encode_block(self._folders)
        frame = zstandard.ZstdCompressor(level=LEVEL).compress(raw)
        first = self._folders[0]
        self.blocks.append(
            BlockRef(
                self.length,
                len(frame),
                len(raw),
                first.start,
                self._entries,
                hashlib.sha256(frame).digest(),
                first.path,
            )
        )
        self.data.append(frame)
        self.length += len(frame)
        self._folders, self._entries = [], 0


def encode_block(folders: Sequence[Folder]) -> bytes:
    entries = [entry for folder in folders for entry in folder.entries]
    names = b"\0".join(entry.name for entry in entries)
    paths = b"\0".join(folder.path for folder in folders)
    targets = b"\0".join(entry.target for entry in entries if entry.kind in "lh")
    return b"".join(
        (
            _BLOCK_COUNTS.pack(len(folders), len(paths), len(names), len(targets)),
            encode_column(array("I", [len(folder.entries) for folder in folders])),
            paths,
            names,
            targets,
            "".join(entry.kind for entry in entries).encode(),
            encode_column(array("H", [entry.mode for entry in entries])),
            encode_column(array("Q", [entry.size for entry in entries])),
            encode_column(array("q", [entry.mtime for entry in entries])),
            encode_column(array("q", [_surplus(entry) for entry in entries])),
        )
    )


def parse_block(raw: bytes, start: int) -> list[Folder]:
    """Parse a block whose first member begins at ``start``. Raises ``HostileArchive``."""
    try:
        return _parse_block(raw, start)
    except (struct.error, ValueError, IndexError, OverflowError, StopIteration) as error:
        raise HostileArchive("a malformed manifest") from error


def _parse_block(raw: bytes, start: int) -> list[Folder]:
    folders, paths_length, names_length, targets_length = _BLOCK_COUNTS.unpack_from(raw)
    counts: array[int] = array("I")
    at = fill_column(counts, raw, _BLOCK_COUNTS.size, folders)
    paths = raw[at : at + paths_length].split(b"\0")
    at += paths_length
    names = raw[at : at + names_length].split(b"\0")
    at += names_length
    targets = iter(raw[at : at + targets_length].split(b"\0"))
    at += targets_length
    count = sum(counts)
    kinds = raw[at : at + count].decode("ascii")
    at += count
    columns: list[array[int]] = [array("H"), array("Q"), array("q"), array("q")]
    for column in columns:
        at = fill_column(column, raw, at, count)
    if at != len(raw) or len(paths) != folders or len(names) != count or set(kinds) - set("fdlhp"):
        raise HostileArchive("a malformed manifest")
    found = []
    rows = zip(names, kinds, *columns, strict=True)
    for path, length in zip(paths, counts, strict=True):
        entries, began = [], start
        for _ in range(length):
            name, kind, mode, size, mtime, surplus = next(rows)
            member = surplus + _rounded(size if kind == "f" else 0)
            if member <= 0:
                raise HostileArchive("a member without a length")
            entries.append(
                Entry(name, kind, mode, size, mtime, member, next(targets) if kind in "lh" else b"")
            )
            start += member
        found.append(Folder(path, began, entries))
    return found


def _surplus(entry: Entry) -> int:
    """What a member takes beyond its data: nearly always its headers, the same for all files."""
    return entry.member_bytes - _rounded(entry.size if entry.kind == "f" else 0)


def _rounded(size: int) -> int:
    return -(-size // 512) * 512
