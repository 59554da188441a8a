"""The manifest of a generation in format 2: ``home.manifest``.

    magic │ block │ block │ … │ tail │ footer

The home is one POSIX tar stream, as in format 1, made of slices of chunks. The *tail* says how: packs, chunks (where in
which pack, how long, which SHA-256) and *runs*: slices of chunks which, put together, are the stream. A restore needs
nothing else. The *blocks* list folders and their entries in the order of the stream, for people who browse and for the
next archive, which takes unchanged members over. Blocks and tail are zstd frames; a block holds some thousand entries
of whole columns, so that it compresses well and one folder is listed without reading the others.

A manifest is untrusted input: ``Tail.parse`` refuses what does not add up before anything is read or allocated.
"""

import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

import zstandard

from codehub.archives.columns import encode_column, fill_column
from codehub.archives.listing import LEVEL, MAGIC, BlockRef, BlockWriter
from codehub.archives.members import HostileArchive
from codehub.archives.packs import MAX_CHUNK_BYTES

MAX_TAIL_BYTES = 256 * 1024 * 1024
MAX_BLOCK_BYTES = 64 * 1024 * 1024
FOOTER = struct.Struct("<QQQ8s")  # offset, length and content length of the tail
_COUNTS = struct.Struct(
    "<QIIIIQ"
)  # stream length; packs, chunks, runs, blocks; length of the names of folders
_PACK = struct.Struct("<32sQ")
_BLOCK = struct.Struct("<QIIQI32s")


@dataclass(frozen=True)
class PackRef:
    name: str
    size: int


class ChunkRef(NamedTuple):
    """Where a chunk is stored, and what it holds."""

    pack: int
    offset: int
    length: int
    content_bytes: int
    sha256: bytes


@dataclass
class Tail:
    """Packs, chunks, runs and blocks of one generation."""

    stream_bytes: int = 0
    packs: list[PackRef] = field(default_factory=list)
    chunk_packs: "array[int]" = field(default_factory=lambda: array("I"))
    chunk_offsets: "array[int]" = field(default_factory=lambda: array("Q"))
    chunk_lengths: "array[int]" = field(default_factory=lambda: array("I"))
    chunk_contents: "array[int]" = field(default_factory=lambda: array("I"))
    chunk_hashes: bytearray = field(default_factory=bytearray)
    run_chunks: "array[int]" = field(default_factory=lambda: array("I"))
    run_offsets: "array[int]" = field(default_factory=lambda: array("I"))
    run_lengths: "array[int]" = field(default_factory=lambda: array("I"))
    blocks: list[BlockRef] = field(default_factory=list)

    def chunk(self, number: int) -> ChunkRef:
        return ChunkRef(
            self.chunk_packs[number],
            self.chunk_offsets[number],
            self.chunk_lengths[number],
            self.chunk_contents[number],
            bytes(self.chunk_hashes[32 * number : 32 * number + 32]),
        )

    def add_chunk(self, chunk: ChunkRef) -> int:
        """Append a chunk; return its number."""
        self.chunk_packs.append(chunk.pack)
        self.chunk_offsets.append(chunk.offset)
        self.chunk_lengths.append(chunk.length)
        self.chunk_contents.append(chunk.content_bytes)
        self.chunk_hashes += chunk.sha256
        return len(self.chunk_packs) - 1

    def add_run(self, chunk: int, offset: int, length: int) -> None:
        """Append a slice of a chunk to the stream."""
        self.stream_bytes += length
        last = len(self.run_chunks) - 1
        if last >= 0 and (self.run_chunks[last], self.run_offsets[last] + self.run_lengths[last]) == (
            chunk,
            offset,
        ):
            self.run_lengths[last] += length
            return
        self.run_chunks.append(chunk)
        self.run_offsets.append(offset)
        self.run_lengths.append(length)

    def run_starts(self) -> "array[int]":
        """Return where each run begins in the stream."""
        return array("Q", list(accumulate(self.run_lengths, initial=0))[:-1])

    def slices(self, starts: "array[int]", begin: int, end: int) -> Iterator[tuple[int, int, int]]:
        """Yield (chunk, offset, length) of the stream from ``begin`` to ``end``."""
        run = bisect_right(starts, begin) - 1
        while begin < end:
            skip = begin - starts[run]
            length = min(self.run_lengths[run] - skip, end - begin)
            yield self.run_chunks[run], self.run_offsets[run] + skip, length
            begin += length
            run += 1

    def in_order_of_packs(self) -> "Tail":
        """Return the same stream with its chunks ordered by pack and offset, so that neighbours are read at once."""
        order = sorted(
            range(len(self.chunk_packs)), key=lambda each: (self.chunk_packs[each], self.chunk_offsets[each])
        )
        new_number = array("I", bytes(4 * len(order)))
        ordered = Tail(self.stream_bytes, self.packs)
        for number in order:
            new_number[number] = ordered.add_chunk(self.chunk(number))
        ordered.run_chunks = array("I", (new_number[chunk] for chunk in self.run_chunks))
        ordered.run_offsets, ordered.run_lengths = self.run_offsets, self.run_lengths
        return ordered

    def encode(self) -> bytes:
        names = b"\0".join(block.first_folder for block in self.blocks)
        return b"".join(
            (
                _COUNTS.pack(
                    self.stream_bytes,
                    len(self.packs),
                    len(self.chunk_packs),
                    len(self.run_chunks),
                    len(self.blocks),
                    len(names),
                ),
                *(_PACK.pack(bytes.fromhex(pack.name), pack.size) for pack in self.packs),
                *map(encode_column, (self.chunk_packs, self.chunk_offsets, self.chunk_lengths)),
                encode_column(self.chunk_contents),
                self.chunk_hashes,
                *map(encode_column, (self.run_chunks, self.run_offsets, self.run_lengths)),
                *(_BLOCK.pack(*block[:-1]) for block in self.blocks),
                names,
            )
        )

    @classmethod
    def parse(cls, raw: bytes, *, tail_offset: int) -> "Tail":
        """Parse a tail. Raises ``HostileArchive`` unless everything in it adds up."""
        try:
            return cls._parse(raw, tail_offset=tail_offset)
        except (struct.error, ValueError, IndexError, OverflowError) as error:
            raise HostileArchive("a malformed manifest") from error

    @classmethod
    def _parse(cls, raw: bytes, *, tail_offset: int) -> "Tail":
        stream_bytes, packs, chunks, runs, blocks, names_length = _COUNTS.unpack_from(raw)
        at = _COUNTS.size
        wanted = at + packs * _PACK.size + chunks * 52 + runs * 12 + blocks * _BLOCK.size + names_length
        if len(raw) != wanted:
            raise HostileArchive("a manifest that claims more than it has")
        tail = cls()
        for name, size in _PACK.iter_unpack(raw[at : at + packs * _PACK.size]):
            tail.packs.append(PackRef(name.hex(), size))
        at += packs * _PACK.size
        for column, count in (
            (tail.chunk_packs, chunks),
            (tail.chunk_offsets, chunks),
            (tail.chunk_lengths, chunks),
            (tail.chunk_contents, chunks),
        ):
            at = fill_column(column, raw, at, count)
        tail.chunk_hashes += raw[at : at + 32 * chunks]
        at += 32 * chunks
        for column in (tail.run_chunks, tail.run_offsets, tail.run_lengths):
            at = fill_column(column, raw, at, runs)
        names = raw[at + blocks * _BLOCK.size :].split(b"\0") if blocks else []
        for fields, name in zip(_BLOCK.iter_unpack(raw[at : at + blocks * _BLOCK.size]), names, strict=True):
            tail.blocks.append(BlockRef._make((*fields, name)))
        tail.stream_bytes = stream_bytes
        tail._verify(tail_offset)
        return tail

    def _verify(self, tail_offset: int) -> None:
        sizes = [pack.size for pack in self.packs]
        for pack, offset, length, content in zip(
            self.chunk_packs, self.chunk_offsets, self.chunk_lengths, self.chunk_contents, strict=True
        ):
            if pack >= len(sizes) or offset + length > sizes[pack]:
                raise HostileArchive("a chunk outside its pack")
            if not 0 < content <= MAX_CHUNK_BYTES or not 0 < length <= 2 * MAX_CHUNK_BYTES:
                raise HostileArchive("a chunk of an impossible length")
        for chunk, offset, length in zip(self.run_chunks, self.run_offsets, self.run_lengths, strict=True):
            if not length or offset + length > self.chunk_contents[chunk]:
                raise HostileArchive("a piece outside its chunk")
        if sum(self.run_lengths) != self.stream_bytes:
            raise HostileArchive("more or less data than its manifest says")
        for block in self.blocks:
            if block.offset + block.length > tail_offset or block.content_bytes > MAX_BLOCK_BYTES:
                raise HostileArchive("a block outside its manifest")


def encode_manifest(blocks: BlockWriter, tail: Tail) -> tuple[list[bytes], int]:
    """Return the pieces of a manifest and the length of its end: tail and footer."""
    blocks.flush()
    tail.blocks = blocks.blocks
    raw = tail.encode()
    frame = zstandard.ZstdCompressor(level=LEVEL).compress(raw)
    footer = FOOTER.pack(blocks.length, len(frame), len(raw), MAGIC)
    return [*blocks.data, frame, footer], len(frame) + len(footer)


def end_length(footer: bytes, *, size: int) -> int:
    """Return the length of tail and footer of a manifest of ``size`` bytes. Raises ``HostileArchive``."""
    if len(footer) < FOOTER.size:
        raise HostileArchive("a manifest without its end")
    offset, length, _, magic = FOOTER.unpack(footer[-FOOTER.size :])
    if magic != MAGIC or offset + length + FOOTER.size != size or length > MAX_TAIL_BYTES:
        raise HostileArchive("a manifest without its end")
    return int(length) + FOOTER.size


def parse_end(end: bytes, *, size: int) -> Tail:
    """Parse the last bytes of a manifest of ``size`` bytes: tail and footer."""
    if end_length(end, size=size) != len(end):
        raise HostileArchive("a manifest without its end")
    offset, _, content_bytes, _ = FOOTER.unpack(end[-FOOTER.size :])
    if content_bytes > MAX_TAIL_BYTES:
        raise HostileArchive("a manifest that is too large")
    return Tail.parse(unpacked(end[: -FOOTER.size], content_bytes), tail_offset=offset)


def unpacked(frame: bytes, content_bytes: int) -> bytes:
    """Decompress a block or a tail of a known length. Raises ``HostileArchive``."""
    try:
        if zstandard.frame_content_size(frame) != content_bytes:
            raise HostileArchive("a part of another length than its manifest says")
        return zstandard.ZstdDecompressor().decompress(frame, max_output_size=content_bytes)
    except zstandard.ZstdError as error:
        raise HostileArchive("a damaged manifest") from error
