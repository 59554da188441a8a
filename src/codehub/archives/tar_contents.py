"""Look into an archive of format 1: one tar in one zstd frame.

Folders are listed from an index (``index_cache``). A frame cannot be entered in the middle, so a file is read by
decompressing what is before it, in a thread, in constant memory; nothing of that is kept.
"""

import asyncio
import tarfile
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import aclosing, suppress

import zstandard

from codehub.archives.contents import (
    ArchiveUnreadable,
    Entry,
    EntryKind,
    EntryNotFound,
    Listing,
    WrongKind,
)
from codehub.archives.index_cache import IndexCache
from codehub.archives.keys import ArchivePath
from codehub.archives.members import BLOCK
from codehub.archives.meta import ArchiveMeta
from codehub.archives.read_ahead import read_ahead
from codehub.archives.store import ArchiveStore
from codehub.archives.tar_index import Located, Sparse, TarIndex
from codehub.kit.threads import in_thread

_PIECE_BYTES = 1024 * 1024
_MAX_HOLES = 1_000_000
_HOME = Entry(b"", EntryKind.DIRECTORY, size=0, mode=0o755, mtime_ns=0)
_TYPES = {
    EntryKind.FILE: tarfile.REGTYPE,
    EntryKind.DIRECTORY: tarfile.DIRTYPE,
    EntryKind.SYMLINK: tarfile.SYMTYPE,
    EntryKind.OTHER: tarfile.FIFOTYPE,
}


class TarContents:
    """One archive of format 1."""

    def __init__(self, store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta, cache: IndexCache) -> None:
        self._store = store
        self._path = path
        self._meta = meta
        self._cache = cache

    async def list(self, folder: bytes, *, limit: int) -> Listing:
        index = await self._open()
        try:
            if (await in_thread(_find, index, folder)).entry.kind is not EntryKind.DIRECTORY:
                raise WrongKind("This is not a folder.")
            found = await in_thread(index.children, folder, limit=limit + 1)
        finally:
            index.close()
        return Listing(tuple(found[:limit]), truncated=len(found) > limit)

    async def stat(self, path: bytes) -> Entry:
        index = await self._open()
        try:
            return (await in_thread(_find, index, path)).entry
        finally:
            index.close()

    async def read(self, path: bytes) -> AsyncGenerator[bytes, None]:
        index = await self._open()
        try:
            found = await in_thread(_find, index, path)
        finally:
            index.close()
        if found.entry.kind is not EntryKind.FILE:
            raise WrongKind("This is not a file.")
        async with aclosing(self._produce(lambda stream: stream.content(found))) as pieces:
            async for piece in pieces:
                yield piece

    async def pack(self, folder: bytes) -> AsyncGenerator[bytes, None]:
        index = await self._open()
        try:
            found = await in_thread(_find, index, folder)
            async with aclosing(self._produce(lambda stream: _packed(stream, index, found))) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            index.close()

    async def _open(self) -> TarIndex:
        return await self._cache.open(self._store, self._path, self._meta)

    async def _produce(self, make: "Callable[[_TarStream], Iterator[bytes]]") -> AsyncGenerator[bytes, None]:
        """Run ``make`` in a thread on the tar's stream, one piece ahead of the reader."""
        source = Source(self._store.stream(self._path, size=self._meta.bytes))
        made = make(_TarStream(source))
        try:
            async with aclosing(read_ahead(lambda: next(made, b""), unblock=source.cancel)) as pieces:
                async for piece in pieces:
                    yield piece
        except zstandard.ZstdError as error:
            raise ArchiveUnreadable(f"The archive is damaged: {error}.") from error
        finally:
            await source.close()


def _find(index: TarIndex, path: bytes) -> Located:
    if not path:
        return Located(_HOME, 0, Sparse.NONE)
    found = index.find(path)
    if found is None:
        raise EntryNotFound("There is no such file in this archive.")
    return found


class Source:
    """The object as a file that a thread reads: the event loop fetches each piece."""

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = pieces
        self._loop = asyncio.get_running_loop()
        self._pending: Future[bytes] | None = None
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        if not self._rest:
            self._pending = asyncio.run_coroutine_threadsafe(self._next(), self._loop)
            try:
                self._rest = memoryview(self._pending.result())
            except CancelledError:
                return b""
        piece, self._rest = self._rest[:size], self._rest[size:]
        return bytes(piece)

    async def _next(self) -> bytes:
        return await anext(self._pieces, b"")

    def cancel(self) -> None:
        """Make a thread that waits return."""
        if self._pending is not None:
            self._pending.cancel()

    async def close(self) -> None:
        with suppress(RuntimeError):  # it is being cancelled already
            await self._pieces.aclose()


class _TarStream:
    """The uncompressed stream, read forward only. Blocking."""

    def __init__(self, source: Source) -> None:
        self._reader = zstandard.ZstdDecompressor().stream_reader(source, read_size=_PIECE_BYTES)  # type: ignore[arg-type]
        self._at = 0

    def content(self, found: Located) -> Iterator[bytes]:
        """Yield a file's content, holes as zeros."""
        size = found.entry.size
        self._skip_to(found.at)
        if found.sparse is Sparse.NONE:
            yield from self._bytes(size)
            return
        if found.sparse is Sparse.UNKNOWN:
            raise ArchiveUnreadable("This file has holes in a way that cannot be read singly.")
        at = 0
        for offset, length in self._stretches():
            if offset < at or offset + length > size:
                raise ArchiveUnreadable("The map of a sparse file makes no sense.")
            yield from _zeros(offset - at)
            yield from self._bytes(length)
            at = offset + length
        yield from _zeros(size - at)

    def _stretches(self) -> list[tuple[int, int]]:
        """Read the map before the data: a count, then offset and length of each stretch, in whole blocks."""
        numbers: list[int] = []
        rest, wanted = b"", 1
        while len(numbers) < wanted:
            *lines, rest = (rest + b"".join(self._bytes(BLOCK))).split(b"\n")
            if len(rest) > BLOCK or not all(line.isdigit() and len(line) < 20 for line in lines):
                raise ArchiveUnreadable("The map of a sparse file makes no sense.")
            numbers += map(int, lines)
            wanted = 1 + 2 * numbers[0] if numbers else 1
            if wanted > 2 * _MAX_HOLES:
                raise ArchiveUnreadable("A file has more holes than can be read singly.")
        return list(zip(numbers[1:wanted:2], numbers[2:wanted:2], strict=True))

    def _bytes(self, count: int) -> Iterator[bytes]:
        while count > 0:
            piece = self._reader.read(min(count, _PIECE_BYTES))
            if not piece:
                raise ArchiveUnreadable("The archive ends in the middle.")
            self._at += len(piece)
            count -= len(piece)
            yield piece

    def _skip_to(self, at: int) -> None:
        for _ in self._bytes(at - self._at):
            pass


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        step = min(count, _PIECE_BYTES)
        yield bytes(step)
        count -= step


def _packed(stream: _TarStream, index: TarIndex, root: Located) -> Iterator[bytes]:
    """Yield a tar of what is below ``root``, in the order of the archive."""
    above = root.entry.path.rpartition(b"/")[0]
    base = len(above) + 1 if above else 0
    written: Located | None = None  # the last file with data: hard links to it follow at once
    for each in _all_of(index, root):
        is_file = each.entry.kind is EntryKind.FILE
        name = _in_tar(each.entry.path[base:])
        if is_file and written is not None and written.at == each.at:
            yield _header(each.entry, name, link=_in_tar(written.entry.path[base:]))
            continue
        yield _header(each.entry, name)
        if is_file:
            yield from stream.content(each)
            yield from _zeros(-each.entry.size % BLOCK)
            written = each
    yield bytes(2 * BLOCK)


def _all_of(index: TarIndex, root: Located) -> Iterator[Located]:
    if root.entry.path:
        yield root
    if root.entry.kind is EntryKind.DIRECTORY:
        yield from index.below(root.entry.path)


def _in_tar(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")


def _header(entry: Entry, name: str, *, link: str | None = None) -> bytes:
    info = tarfile.TarInfo(name)
    info.type = tarfile.LNKTYPE if link is not None else _TYPES[entry.kind]
    info.mode = entry.mode
    info.mtime = max(0, entry.mtime_ns // 1_000_000_000)
    info.size = entry.size if info.type == tarfile.REGTYPE else 0
    info.linkname = link or _in_tar(entry.target or b"")
    # GNU's own dialect takes any bytes in names and any length.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
