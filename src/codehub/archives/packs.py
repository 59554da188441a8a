"""Build packs: immutable objects that hold the chunks of format 2.

    magic, 16 random bytes │ chunk │ chunk │ …  │ index │ footer

A chunk is one zstd frame, a piece of the home's tar stream. The index lists offset, length, length of the content and
SHA-256 of every chunk, so that a pack can be checked and read without its manifest. A pack's name is the SHA-256 of its
first 24 bytes and its index: so it depends on every byte, and each byte is hashed once. The random bytes make every
pack new: what a job writes never has the name of a pack that the archive GC is about to delete.
"""

import hashlib
import os
import struct
from dataclasses import dataclass

import zstandard

from codehub.archives.members import HostileArchive

MAGIC = b"CHPACK2\n"
PACK_BYTES = 32 * 1024 * 1024
"""A pack is closed once it holds this much. Its name is known at its end, so it is held in memory, and the one before
may still be on its way to the store."""

MAX_CHUNK_BYTES = 8 * 1024 * 1024
"""Longest content of a chunk that is ever decompressed, whatever a manifest claims."""

LEVEL = 3
_SALT_BYTES = 16
_CHUNK = struct.Struct("<QII32s")
_FOOTER = struct.Struct("<QII8s")


@dataclass(frozen=True)
class Compressed:
    """A chunk ready to be stored: its zstd frame with its SHA-256, and the length of its content."""

    frame: bytes
    content_bytes: int
    sha256: bytes


@dataclass(frozen=True)
class FinishedPack:
    """A complete pack."""

    name: str
    data: bytearray


def compress(content: bytes) -> Compressed:
    """Compress and hash one chunk. Called in several threads.

    The frame is hashed and not the content: that is less work at every reading. The same content makes the same frame
    as long as zstd stays the same; a new version of it only stores a piece twice.
    """
    frame = zstandard.ZstdCompressor(level=LEVEL).compress(content)
    return Compressed(frame, len(content), hashlib.sha256(frame).digest())


def decompress(frame: bytes, *, content_bytes: int, sha256: bytes) -> bytes:
    """Return the content of a chunk; raises ``DamagedChunk`` unless it is the one that was stored."""
    if hashlib.sha256(frame).digest() != sha256:
        raise DamagedChunk("its checksum does not match")
    try:
        # Bounded by the frame's own header, which must say what the manifest says: no bomb is unpacked.
        if zstandard.frame_content_size(frame) != content_bytes or content_bytes > MAX_CHUNK_BYTES:
            raise DamagedChunk("its length is another one")
        content = zstandard.ZstdDecompressor().decompress(frame, max_output_size=content_bytes)
    except zstandard.ZstdError as error:
        raise DamagedChunk(str(error)) from error
    if len(content) != content_bytes:
        raise DamagedChunk("its length is another one")
    return content


class DamagedChunk(Exception):
    """A chunk is not what its manifest says."""


class PackBuilder:
    """Fills one pack in memory."""

    def __init__(self) -> None:
        self._data = bytearray(MAGIC + os.urandom(_SALT_BYTES))
        self._index = bytearray()

    @property
    def is_full(self) -> bool:
        return len(self._data) >= PACK_BYTES

    @property
    def is_empty(self) -> bool:
        return not self._index

    def add(self, chunk: Compressed) -> int:
        """Append a chunk; return its offset."""
        offset = len(self._data)
        self._data += chunk.frame
        self._index += _CHUNK.pack(offset, len(chunk.frame), chunk.content_bytes, chunk.sha256)
        return offset

    def finish(self) -> FinishedPack:
        """Append the index and name the pack."""
        name = _name(self._data, self._index)
        index = zstandard.ZstdCompressor(level=LEVEL).compress(bytes(self._index))
        offset = len(self._data)
        self._data += index
        self._data += _FOOTER.pack(offset, len(index), len(self._index) // _CHUNK.size, MAGIC)
        return FinishedPack(name, self._data)


def _name(start: bytes | bytearray | memoryview, index: bytes | bytearray) -> str:
    return hashlib.sha256(bytes(start[: len(MAGIC) + _SALT_BYTES]) + index).hexdigest()


def is_intact(data: bytes | bytearray, *, name: str) -> bool:
    """Whether a whole pack is the one that was stored under this name. Blocking."""
    try:
        raw, chunks = _read_index(data)
    except HostileArchive:
        return False
    view = memoryview(data)
    return _name(view, raw) == name and all(
        hashlib.sha256(view[start : start + length]).digest() == sha256 for start, length, _, sha256 in chunks
    )


def _read_index(data: bytes | bytearray) -> tuple[bytes, list[tuple[int, int, int, bytes]]]:
    """Return the index of a whole pack: offset, length, content length and SHA-256 of every chunk.

    Raises ``HostileArchive`` if it claims more than it has.
    """
    if len(data) < len(MAGIC) + _SALT_BYTES + _FOOTER.size or data[: len(MAGIC)] != MAGIC:
        raise HostileArchive("something that is no pack")
    offset, length, count, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    if magic != MAGIC or offset + length + _FOOTER.size != len(data):
        raise HostileArchive("a pack without its end")
    try:
        raw = zstandard.ZstdDecompressor().decompress(
            data[offset : offset + length], max_output_size=count * _CHUNK.size
        )
    except zstandard.ZstdError as error:
        raise HostileArchive("a pack with a damaged index") from error
    if len(raw) != count * _CHUNK.size:
        raise HostileArchive("a pack with a damaged index")
    chunks = list(_CHUNK.iter_unpack(raw))
    if any(start + size > offset or content > MAX_CHUNK_BYTES for start, size, content, _ in chunks):
        raise HostileArchive("a pack that claims more than it has")
    return raw, chunks
