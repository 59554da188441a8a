"""Archive a volume in format 2: only what is new is uploaded.

    base: the generation the volume was restored from ──► proven? ──► members taken over, chunks named
    walk ──► tar ──► chunks ──► packs ──► read back ──► manifest ──► read back ──► packs still there? ──► .meta

A pack is reused only if the committed manifest of the base names it and the store has it with the right size, at the
start and again before the meta. If the process dies anywhere before the meta, packs and perhaps a manifest stay that
nobody reads; the archive GC removes them.
"""

import asyncio
import hashlib
import os
from array import array
from collections import OrderedDict
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from codehub.archives.chunk_reader import read_chunks
from codehub.archives.cutting import BaseStream, Cutter, NewChunk
from codehub.archives.file_index import FileIndex
from codehub.archives.generation import END_OF_TAR, Manifest, open_whole
from codehub.archives.home_walk import HomeWalk, Previous
from codehub.archives.keys import ArchivePath, PackPath
from codehub.archives.listing import Folder
from codehub.archives.manifest import ChunkRef, PackRef, Tail, encode_manifest
from codehub.archives.members import HostileArchive
from codehub.archives.meta import ArchiveMeta, Binding
from codehub.archives.packs import FinishedPack, PackBuilder, is_intact
from codehub.archives.read_ahead import read_ahead
from codehub.archives.report import Reporter
from codehub.archives.store import ArchiveStore
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.threads import in_thread

FULL_READ_EVERY = 10
"""Every so many generations all files are read and compared with what is stored, whatever the file index says."""

_CHUNKS_AHEAD = 4
_RECENT_CHUNKS = 8
_MAX_THREADS = 8
_MAX_INDEX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True)
class Base:
    """The generation before, checked and proven. ``index``: None asks for a full read."""

    manifest: Manifest
    proven: frozenset[int]  # numbers of packs
    index: FileIndex | None
    since_full_read: int


async def find_base(store: ArchiveStore, path: ArchivePath, meta: ArchiveMeta) -> Base | None:
    """Open the generation ``path`` to build upon; None if it is damaged. Raises if the store is away.

    A damaged or missing base is no failure: all of the home is then read and stored anew.
    """
    try:
        manifest = await open_whole(store, path, meta)
        sizes = await store.list_packs(path.workspace_id)
        index = None
        if meta.since_full_read + 1 < FULL_READ_EVERY and 0 < sizes.get("index", 0) <= _MAX_INDEX_BYTES:
            raw = await store.read_range(PackPath(path.workspace_id, "index"), 0, sizes["index"])
            index = FileIndex.parse(raw, manifest_sha256=meta.sha256)
    except EffectError as error:
        if error.failure is FailureCode.S3_ACCESS_ERROR:
            raise
        return None
    packs = manifest.tail.packs
    proven = frozenset(number for number, pack in enumerate(packs) if sizes.get(pack.name) == pack.size)
    entries = sum(block.entries for block in manifest.tail.blocks)
    if index is not None and len(index.inodes) != entries:
        index = None
    return Base(manifest, proven, index, meta.since_full_read)


async def make_generation(
    volume: Path,
    path: ArchivePath,
    store: ArchiveStore,
    reporter: Reporter,
    *,
    binding: Binding,
    base: Base | None,
    new_packs: list[PackPath],
) -> ArchiveMeta:
    """Upload packs and manifest and read them back; return the meta to commit.

    ``new_packs`` is filled with what was or may have been written, for whoever cleans up after a failure.
    """
    await store.remove_unfinished_packs(path.workspace_id)
    maker = _Maker(volume, path, store, reporter, base, new_packs)
    reporter.progress(done_bytes=0, total_bytes=None, files=0)
    with reporter.phase("upload"):
        await maker.pack()
    maker.walk.require_restorable()
    with reporter.phase("read_back"):
        for pack in maker.new_packs:
            await _read_pack_back(store, PackPath(path.workspace_id, pack.name), pack.size)
    pieces, end_bytes, tail = await in_thread(maker.manifest)
    digest = hashlib.sha256(b"".join(pieces)).hexdigest()
    size = sum(map(len, pieces))
    with reporter.phase("upload"):
        async with store.open_writer(path) as writer:
            for piece in pieces:
                await writer.write(piece)
    with reporter.phase("read_back"):
        await _read_back(store, path, size, digest)
        await _require_packs(store, path, tail)
    total = tail.stream_bytes + len(END_OF_TAR)
    reporter.progress(done_bytes=total, total_bytes=total, files=maker.walk.files)
    return ArchiveMeta(
        sha256=digest,
        bytes=size,
        files=maker.walk.files,
        uncompressed_bytes=total,
        skipped=maker.walk.sockets,
        created_at=datetime.now(UTC),  # for people; no decision depends on it
        binding=binding,
        format_version=2,
        end_bytes=end_bytes,
        stored_bytes=size + sum(tail.chunk_lengths),
        new_bytes=size + sum(pack.size for pack in maker.new_packs),
        since_full_read=base.since_full_read + 1 if base is not None and base.index is not None else 0,
    )


class _Maker:
    """One generation while it is made."""

    def __init__(
        self,
        volume: Path,
        path: ArchivePath,
        store: ArchiveStore,
        reporter: Reporter,
        base: Base | None,
        written: list[PackPath],
    ) -> None:
        self.new_packs: list[PackRef] = []
        self._written = written
        self._volume = volume
        self._workspace_id = path.workspace_id
        self._store = store
        self._reporter = reporter
        self._base = base
        self._places: dict[int, ChunkRef] = {}  # number of a new chunk → where it is
        self._stored: dict[
            bytes, ChunkRef
        ] = {}  # SHA-256 → where it is; packs of the base have negative numbers
        self._base_chunks: dict[bytes, int] = {}  # SHA-256 → number in the base
        self._recent: OrderedDict[int, bytes] = (
            OrderedDict()
        )  # chunks of the base that a full read compares with
        self._builder = PackBuilder()
        self._uploading: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._starts = base.manifest.tail.run_starts() if base is not None else None
        self._folders: AsyncGenerator[Folder, None] | None = None
        self.walk = HomeWalk(volume, None)
        self._cutter: Cutter | None = None

    async def pack(self) -> None:
        """Walk, read, cut and upload."""
        base_stream, previous = await self._open_base()
        self.walk = HomeWalk(self._volume, previous)
        with ThreadPoolExecutor(_threads(), thread_name_prefix="compress") as pool:
            self._cutter = cutter = Cutter(self._volume, self.walk, base_stream, pool)
            made = cutter.chunks()
            ahead = read_ahead(lambda: next(made, None), unblock=cutter.stop, ahead=_CHUNKS_AHEAD)
            try:
                async with aclosing(ahead) as chunks:
                    async for chunk in chunks:
                        await self._store_chunk(chunk)
                await self._finish_pack()
            finally:
                await in_thread(made.close)
                await self._end_upload()
                if self._folders is not None:
                    await self._folders.aclose()
        if self._uploading is not None:
            self._uploading.result()

    def manifest(self) -> tuple[list[bytes], int, Tail]:
        """Encode the manifest. Blocking."""
        assert self._cutter is not None
        cutter = self._cutter
        for chunk, number in cutter.base_chunks.items():
            self._places[number] = self._base_place(chunk)
        tail = Tail(packs=list(self.new_packs))
        packs = {number: number for number in range(len(tail.packs))}
        numbers: dict[ChunkRef, int] = {}
        new_number = array("I")
        for number in range(cutter.chunk_count):
            place = self._places[number]
            if place not in numbers:
                if place.pack not in packs:
                    packs[place.pack] = len(tail.packs)
                    tail.packs.append(self._base_pack(place.pack))
                numbers[place] = tail.add_chunk(place._replace(pack=packs[place.pack]))
            new_number.append(numbers[place])
        runs = cutter.runs
        tail.stream_bytes = runs.stream_bytes
        tail.run_chunks = array("I", (new_number[chunk] for chunk in runs.run_chunks))
        tail.run_offsets, tail.run_lengths = runs.run_offsets, runs.run_lengths
        tail = tail.in_order_of_packs()
        pieces, end_bytes = encode_manifest(cutter.blocks, tail)
        return pieces, end_bytes, tail

    def _base_place(self, chunk: int) -> ChunkRef:
        assert self._base is not None
        place = self._base.manifest.tail.chunk(chunk)
        return place._replace(pack=-1 - place.pack)

    def _base_pack(self, number: int) -> PackRef:
        assert self._base is not None
        return self._base.manifest.tail.packs[-1 - number]

    async def _open_base(self) -> tuple[BaseStream | None, Previous | None]:
        if self._base is None:
            return None, None
        manifest = self._base.manifest
        self._folders = manifest.folders()
        for number, pack in enumerate(manifest.tail.chunk_packs):
            if pack in self._base.proven:
                place = self._base_place(number)
                self._stored[place.sha256] = place
                self._base_chunks[place.sha256] = number
        stream = BaseStream(manifest.tail, set(self._base.proven), self._read_base)
        previous = await in_thread(
            partial(Previous, self._next_folder, index=self._base.index, is_proven=stream.is_proven)
        )
        return stream, previous

    def _next_folder(self) -> Folder | None:
        """Return the next folder of the base. Called in the walk's thread."""
        assert self._folders is not None
        folders = self._folders

        async def take() -> Folder | None:
            return await anext(folders, None)

        try:
            return asyncio.run_coroutine_threadsafe(take(), self._loop).result()
        except HostileArchive:
            return None  # the rest of a damaged manifest is not taken over

    def _read_base(self, begin: int, end: int) -> bytes:
        """Read a part of the base's stream from the store; empty if it is damaged. In the cutter's thread."""
        assert self._base is not None
        assert self._starts is not None
        found = []
        for chunk, offset, length in self._base.manifest.tail.slices(self._starts, begin, end):
            if chunk not in self._recent:
                read = asyncio.run_coroutine_threadsafe(self._read_chunk(chunk), self._loop)
                self._recent[chunk] = read.result()
                if len(self._recent) > _RECENT_CHUNKS:
                    self._recent.popitem(last=False)
            self._recent.move_to_end(chunk)
            found.append(self._recent[chunk][offset : offset + length])
        return b"".join(found)

    async def _read_chunk(self, chunk: int) -> bytes:
        """Read a chunk of the base; empty if it is damaged, so that what the volume has is stored anew."""
        assert self._base is not None
        manifest = self._base.manifest
        try:
            read = await read_chunks(
                self._store, self._workspace_id, manifest.tail, (chunk,), key=manifest.path.key
            )
        except EffectError as error:
            if error.failure is FailureCode.S3_ACCESS_ERROR:
                raise
            return b""
        return read[chunk]

    async def _is_stored(self, place: ChunkRef) -> bool:
        """Whether a chunk of the base is really there. A full read does not take the manifest's word for it."""
        if place.pack >= 0 or self._base is None or self._base.index is not None:
            return True
        return bool(await self._read_chunk(self._base_chunks[place.sha256]))

    async def _store_chunk(self, chunk: NewChunk) -> None:
        compressed = await asyncio.wrap_future(chunk.compressed)
        place = self._stored.get(compressed.sha256)
        if place is None or not await self._is_stored(place):
            offset = self._builder.add(compressed)
            place = self._stored[compressed.sha256] = ChunkRef(
                len(self.new_packs),
                offset,
                len(compressed.frame),
                compressed.content_bytes,
                compressed.sha256,
            )
        self._places[chunk.number] = place
        assert self._cutter is not None
        self._reporter.progress(
            done_bytes=self._cutter.runs.stream_bytes, total_bytes=None, files=self.walk.files
        )
        if self._builder.is_full:
            await self._finish_pack()

    async def _finish_pack(self) -> None:
        """Upload the pack while the next one is filled."""
        if self._builder.is_empty:
            return
        await self._end_upload()
        if self._uploading is not None:
            self._uploading.result()
        pack = await in_thread(self._builder.finish)
        self.new_packs.append(PackRef(pack.name, len(pack.data)))
        self._builder = PackBuilder()
        self._uploading = asyncio.create_task(self._upload(pack))

    async def _upload(self, pack: FinishedPack) -> None:
        path = PackPath(self._workspace_id, pack.name)
        self._written.append(path)
        await self._store.put_pack(path, pack.data)

    async def _end_upload(self) -> None:
        if self._uploading is not None:
            with suppress(EffectError):  # raised by whoever asks for its result
                await asyncio.shield(self._uploading)


async def _read_pack_back(store: ArchiveStore, path: PackPath, size: int) -> None:
    """Raise ``READ_BACK_MISMATCH`` unless the stored pack is the one that was sent."""
    stored = await store.size_of(path)
    if stored != size:
        raise _mismatch(path, f"{stored} bytes are stored, {size} were sent")
    data = bytearray()
    async with aclosing(store.stream(path, size=size)) as pieces:
        async for piece in pieces:
            data += piece
    if not await in_thread(partial(is_intact, data, name=path.name)):
        raise _mismatch(path, "the bytes differ")


async def _read_back(store: ArchiveStore, path: ArchivePath | PackPath, size: int, sha256: str) -> None:
    """Compare a stored object with what was sent. Raises ``READ_BACK_MISMATCH``."""
    stored = await store.size_of(path)
    if stored != size:
        raise _mismatch(path, f"{stored} bytes are stored, {size} were sent")
    digest = hashlib.sha256()
    async with aclosing(store.stream(path, size=size)) as pieces:
        async for piece in pieces:
            await in_thread(digest.update, piece)
    if digest.hexdigest() != sha256:
        raise _mismatch(path, "the bytes differ")


async def _require_packs(store: ArchiveStore, path: ArchivePath, tail: Tail) -> None:
    """Raise unless every pack that the manifest names is there, right before the meta says so."""
    sizes = await store.list_packs(path.workspace_id)
    for pack in tail.packs:
        if sizes.get(pack.name) != pack.size:
            raise _mismatch(PackPath(path.workspace_id, pack.name), "the pack is not there any more")


def _mismatch(path: ArchivePath | PackPath, detail: str) -> EffectError:
    return EffectError(
        FailureCode.READ_BACK_MISMATCH,
        f"The archive store did not give back what was uploaded: {detail}.",
        action="archive",
        archive_key=path.key,
        detail=detail,
    )


def _threads() -> int:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, _MAX_THREADS)
