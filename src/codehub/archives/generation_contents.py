"""Look into an archive of format 2: folders from its manifest, files from the chunks that hold them."""

import asyncio
import tarfile
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import cast

from codehub.archives import listing
from codehub.archives.contents import ArchiveUnreadable, Entry, EntryKind, EntryNotFound, Listing, WrongKind
from codehub.archives.generation import Manifest, open_manifest
from codehub.archives.keys import ArchivePath
from codehub.archives.members import BLOCK, HostileArchive
from codehub.archives.meta import ArchiveMeta
from codehub.archives.read_ahead import read_ahead
from codehub.archives.store import ArchiveStore
from codehub.archives.tar_contents import Source
from codehub.domain.errors import EffectError, FailureCode

_PIECE_BYTES = 1024 * 1024
_KINDS = {"f": EntryKind.FILE, "h": EntryKind.FILE, "d": EntryKind.DIRECTORY, "l": EntryKind.SYMLINK}
_HOME = Entry(b"", EntryKind.DIRECTORY, size=0, mode=0o755, mtime_ns=0)


class GenerationContents:
    """One archive of format 2. Reads its manifest's end once."""

    def __init__(self, store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta) -> None:
        self._store = store
        self._path = path
        self._meta = meta
        self._opened: Manifest | None = None

    async def list(self, folder: bytes, *, limit: int) -> Listing:
        if (await self.stat(folder)).kind is not EntryKind.DIRECTORY:
            raise WrongKind("This is not a folder.")
        manifest = await self._open()
        try:
            found = await manifest.list_folder(_archived(folder))
        except HostileArchive as error:
            raise _unreadable(error) from error
        prefix = folder + b"/" if folder else b""
        entries = tuple([await self._entry(prefix + entry.name, entry) for entry, _ in found[:limit]])
        return Listing(entries, truncated=len(found) > limit)

    async def stat(self, path: bytes) -> Entry:
        if not path:
            return _HOME
        entry, _ = await self._find(_archived(path))
        return await self._entry(path, entry)

    async def read(self, path: bytes) -> AsyncGenerator[bytes, None]:
        entry, at = await self._find(_archived(path))
        if entry.kind == "h":  # a further name: the content is at the first one
            entry, at = await self._find(entry.target)
        if entry.kind != "f":
            raise WrongKind("This is not a file.")
        manifest = await self._open()
        async with aclosing(_produce(manifest.member_stream(entry, at), _content)) as pieces:
            async for piece in pieces:
                yield piece

    async def pack(self, folder: bytes) -> AsyncGenerator[bytes, None]:
        manifest = await self._open()
        if not folder:
            async with aclosing(manifest.tar_stream()) as pieces:
                async for piece in pieces:
                    yield piece
            return
        entry, at = await self._find(_archived(folder))
        stretches = [(at, at + entry.member_bytes)]
        if entry.kind == "d":
            stretches += [stretch async for stretch in self._below(_archived(folder))]
        base = len(folder.rpartition(b"/")[0])
        above = folder[: base + 1] if base else b""
        loop = asyncio.get_running_loop()

        def content_of(path: bytes) -> tuple[int, Iterator[bytes]]:
            """Read size and content of a file elsewhere in the archive, in the thread that packs."""
            pieces = self.read(path)
            size = asyncio.run_coroutine_threadsafe(self.stat(path), loop).result().size
            return size, iter(lambda: asyncio.run_coroutine_threadsafe(_next(pieces), loop).result(), b"")

        def make(tar: tarfile.TarFile) -> Iterator[bytes]:
            return _renamed(tar, _text(above), _text(folder), content_of)

        async with aclosing(_produce(manifest.stretches_stream(stretches), make)) as pieces:
            async for piece in pieces:
                yield piece

    async def _below(self, folder: bytes) -> AsyncGenerator[tuple[int, int], None]:
        """Yield the parts of the stream that hold what is in ``folder``."""
        manifest = await self._open()
        async with aclosing(manifest.folders()) as folders:
            async for each in folders:
                if each.path == folder or each.path.startswith(folder + b"/"):
                    yield each.start, each.start + sum(entry.member_bytes for entry in each.entries)

    async def _open(self) -> Manifest:
        if self._opened is None:
            try:
                self._opened = await open_manifest(self._store, self._path, self._meta)
            except EffectError as error:
                if error.failure is FailureCode.TAR_EXTRACT_FAILED:
                    raise _unreadable(error) from error
                raise
        return self._opened

    async def _find(self, path: bytes) -> tuple[listing.Entry, int]:
        manifest = await self._open()
        try:
            found = await manifest.find(path)
        except HostileArchive as error:
            raise _unreadable(error) from error
        if found is None:
            raise EntryNotFound("There is no such file in this archive.")
        return found

    async def _entry(self, path: bytes, entry: listing.Entry) -> Entry:
        size = entry.size
        if entry.kind == "h":
            size = (await self._find(entry.target))[0].size
        kind = _KINDS.get(entry.kind, EntryKind.OTHER)
        target = entry.target if kind is EntryKind.SYMLINK else None
        return Entry(path, kind, size, entry.mode, entry.mtime * 1_000_000_000, target)


def _archived(path: bytes) -> bytes:
    return b"./" + path if path else b"."


def _unreadable(error: Exception) -> ArchiveUnreadable:
    return ArchiveUnreadable(f"The archive cannot be read: it holds {error}.")


async def _produce(
    stream: AsyncGenerator[bytes, None], make: Callable[[tarfile.TarFile], Iterator[bytes]]
) -> AsyncGenerator[bytes, None]:
    """Run ``make`` in a thread on a tar stream, one piece ahead of the reader."""
    source = Source(stream)

    def made() -> Iterator[bytes]:
        with tarfile.open(fileobj=source, mode="r|", errors="surrogateescape") as tar:  # type: ignore[call-overload]
            yield from make(cast(tarfile.TarFile, tar))

    pieces = made()
    try:
        filled = filter(None, pieces)  # an empty piece would be the end
        async with aclosing(read_ahead(lambda: next(filled, None), unblock=source.cancel)) as ahead:
            async for piece in ahead:
                yield piece
    except tarfile.TarError as error:
        raise _unreadable(error) from error
    finally:
        await source.close()


def _content(tar: tarfile.TarFile) -> Iterator[bytes]:
    """Yield the content of the first member, holes as zeros."""
    member = tar.next()
    file = tar.extractfile(member) if member is not None and member.isreg() else None
    if file is None:
        raise ArchiveUnreadable("The archive cannot be read: it holds no file in this place.")
    while piece := file.read(_PIECE_BYTES):
        yield piece


def _renamed(
    tar: tarfile.TarFile, above: str, folder: str, content_of: Callable[[bytes], tuple[int, Iterator[bytes]]]
) -> Iterator[bytes]:
    """Yield the members of ``folder`` with names that begin below ``above``.

    A further name of a file elsewhere comes as a file of its own.
    """
    for member in tar:
        made = tarfile.TarInfo(_below(member.name, above))
        made.mode, made.mtime = member.mode, max(0, int(member.mtime))
        target = member.linkname.removeprefix("./")
        if member.islnk() and not target.startswith(folder + "/"):
            made.size, pieces = content_of(target.encode("utf-8", "surrogateescape"))
            yield made.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
            yield from pieces
            yield bytes(-made.size % BLOCK)
            continue
        made.type = tarfile.REGTYPE if member.isreg() else member.type
        made.size = member.size if made.isreg() else 0
        made.linkname = _below(member.linkname, above) if member.islnk() else member.linkname
        yield made.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")
        if made.isreg():
            file = tar.extractfile(member)
            assert file is not None
            while piece := file.read(_PIECE_BYTES):
                yield piece
            yield bytes(-made.size % BLOCK)
    yield bytes(2 * BLOCK)


async def _next(pieces: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(pieces, b"")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _below(name: str, above: str) -> str:
    return name.removeprefix("./").removeprefix(above)
