"""Read one generation in format 2: list a folder, read one file, stream all of it as a tar.

Nothing is unpacked for that: a folder is listed from the manifest alone, and a file is read from the chunks that hold
it. Used by the storage job (``tar_stream``, ``folders``) and by whoever shows generations to people.
"""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from codehub.archives.chunk_reader import stream_chunks
from codehub.archives.keys import ArchivePath
from codehub.archives.listing import BlockRef, Entry, Folder, parse_block
from codehub.archives.manifest import Tail, parse_end, unpacked
from codehub.archives.members import HostileArchive
from codehub.archives.meta import ArchiveMeta
from codehub.archives.store import ArchiveStore
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.threads import in_thread

END_OF_TAR = bytes(1024)
_BLOCKS_AT_ONCE = 16


@dataclass(frozen=True)
class Manifest:
    """A manifest whose end was read and checked."""

    store: ArchiveStore
    path: ArchivePath
    tail: Tail

    async def list_folder(self, folder: bytes) -> list[tuple[Entry, int]]:
        """Return the entries of a folder and where each begins in the stream; empty if there is no such folder.

        ``folder`` is relative to the home: b"." is the home, b"./src" a folder in it. Reads one block or a few.
        """
        wanted = folder.split(b"/")
        blocks = self.tail.blocks
        low, high = 0, len(blocks)
        while low < high:  # the last block that begins before the folder
            middle = (low + high) // 2
            if blocks[middle].first_folder.split(b"/") < wanted:
                low = middle + 1
            else:
                high = middle
        found: list[tuple[Entry, int]] = []
        for number in range(max(0, low - 1), len(blocks)):
            if blocks[number].first_folder.split(b"/") > wanted:
                break
            for each in await self._block(blocks[number]):
                if each.path == folder:
                    at = each.start
                    for entry in each.entries:
                        found.append((entry, at))
                        at += entry.member_bytes
        return found

    async def find(self, path: bytes) -> tuple[Entry, int] | None:
        """Return an entry by its path (b"./src/main.py"), and where it begins in the stream."""
        folder, _, name = path.rpartition(b"/")
        for entry, at in await self.list_folder(folder):
            if entry.name == name:
                return entry, at
        return None

    async def folders(self) -> AsyncGenerator[Folder, None]:
        """Yield every folder, in the order of the stream. One that is large comes in several parts."""
        for start in range(0, len(self.tail.blocks), _BLOCKS_AT_ONCE):
            blocks = self.tail.blocks[start : start + _BLOCKS_AT_ONCE]
            begin, end = blocks[0].offset, blocks[-1].offset + blocks[-1].length
            data = await self.store.read_range(self.path, begin, end - begin)
            for block in blocks:
                frame = data[block.offset - begin : block.offset - begin + block.length]
                for folder in await in_thread(_parsed, frame, block):
                    yield folder

    async def tar_stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the home as one POSIX tar, with its end mark."""
        tail = self.tail
        slices = zip(tail.run_chunks, tail.run_offsets, tail.run_lengths, strict=True)
        pieces = stream_chunks(self.store, self.path.workspace_id, tail, slices, key=self.path.key)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece
        yield END_OF_TAR

    async def member_stream(self, entry: Entry, at: int) -> AsyncGenerator[bytes, None]:
        """Yield one member as a tar of its own, with an end mark."""
        async with aclosing(self.stretches_stream([(at, at + entry.member_bytes)])) as pieces:
            async for piece in pieces:
                yield piece

    async def stretches_stream(self, stretches: Sequence[tuple[int, int]]) -> AsyncGenerator[bytes, None]:
        """Yield parts of the stream as a tar of their own: whole members, in order."""
        starts = self.tail.run_starts()
        slices = (each for begin, end in stretches for each in self.tail.slices(starts, begin, end))
        pieces = stream_chunks(self.store, self.path.workspace_id, self.tail, slices, key=self.path.key)
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece
        yield END_OF_TAR

    async def _block(self, block: BlockRef) -> list[Folder]:
        return _parsed(await self.store.read_range(self.path, block.offset, block.length), block)


def _parsed(frame: bytes, block: BlockRef) -> list[Folder]:
    if hashlib.sha256(frame).digest() != block.sha256:
        raise HostileArchive("a damaged block of its manifest")
    return parse_block(unpacked(frame, block.content_bytes), block.stream_start)


async def open_manifest(store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta) -> Manifest:
    """Read the end of a manifest: two small requests at most. For looking, not for restoring."""
    with_end = min(meta.end_bytes, meta.bytes)
    try:
        end = await store.read_range(path, meta.bytes - with_end, with_end)
        return Manifest(store, path, await in_thread(lambda: parse_end(end, size=meta.bytes)))
    except HostileArchive as error:
        raise refused(path.key, error) from error


async def open_whole(store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta) -> Manifest:
    """Read all of a manifest, so that it is the one whose checksum its meta and the row have.

    Raises ``CHECKSUM_MISMATCH`` (data lost) if it is another one.
    """
    stored = await store.size_of(path)
    if stored != meta.bytes:
        raise _damaged(path, f"its manifest has {stored} bytes instead of {meta.bytes}", "wrong size")
    digest, seen = hashlib.sha256(), 0
    end = bytearray()
    end_at = meta.bytes - meta.end_bytes
    async with aclosing(store.stream(path, size=meta.bytes)) as pieces:
        async for piece in pieces:
            await in_thread(digest.update, piece)
            end += piece[max(0, end_at - seen) :]
            seen += len(piece)
    if digest.hexdigest() != meta.sha256:
        raise _damaged(path, "the checksum of its manifest does not match", "checksum mismatch")
    try:
        tail = await in_thread(lambda: parse_end(bytes(end), size=meta.bytes))
    except HostileArchive as error:
        raise refused(path.key, error) from error
    return Manifest(store, path, tail)


def _damaged(path: ArchivePath, what: str, detail: str) -> EffectError:
    return EffectError(
        FailureCode.CHECKSUM_MISMATCH,
        f"The archive is damaged: {what}. The volume was left as it was.",
        archive_key=path.key,
        detail=detail,
    )


def refused(key: str, why: Exception) -> EffectError:
    """Build the error for an archive that is not unpacked."""
    return EffectError(
        FailureCode.TAR_EXTRACT_FAILED,
        f"The archive was refused: it holds {why}." if isinstance(why, HostileArchive) else f"{why}",
        action="restore",
        archive_key=key,
        detail=str(why),
    )
