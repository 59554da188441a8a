"""Write, find, read and delete archives in object storage.

A directory, S3 and compatible stores, and whatever else obstore supports, behind one interface. Used by the
storage job (write, read back, commit), by services (list archives) and by the archive GC (list in pages,
delete in batches). Handles paths and metas, not the states of workspaces.

Errors are ``EffectError``: ``S3_ACCESS_ERROR`` when the store is away, ``NO_SPACE`` when it is full,
``ARCHIVE_NOT_FOUND`` only when the store as a whole answers and the object does not exist. A missing bucket
or an unmounted disk also answers "not found", and must never be mistaken for lost data.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import obstore
from obstore.store import ObjectStore

from codehub.archives import connect
from codehub.archives.directory import prune_folders, put_durably, remove_unfinished
from codehub.archives.faults import LIBRARY_ERRORS, ObjectMissing, access_error, translated
from codehub.archives.keys import (
    ArchivePath,
    PackPath,
    ParsedKey,
    packs_prefix,
    parse_archive_key,
    parse_key,
    parse_pack_key,
    prefix_of,
)
from codehub.archives.manifest import FOOTER, end_length, parse_end
from codehub.archives.members import HostileArchive
from codehub.archives.meta import MAX_META_BYTES, ArchiveMeta, encode_meta, parse_meta
from codehub.archives.transfer import ObjectWriter, open_writer, read_file, read_object, read_range
from codehub.domain.errors import EffectError, FailureCode

PAGE_SIZE = 1000
"""Objects per page of a listing and per delete request: the maximum of S3."""

_PROBE_SECONDS = 10.0
_PROBE_PREFIX = ".codehub-probe"  # holds no object: an empty listing shows that the store answers
_META_READS_AT_ONCE = 16


@dataclass(frozen=True)
class ArchiveObject:
    """One object of the store. ``parsed`` is None for foreign keys, never touched."""

    key: str
    size: int
    last_modified: datetime
    parsed: ParsedKey | None


@dataclass(frozen=True)
class CommittedArchive:
    """An archive with its meta: complete, read back, restorable."""

    path: ArchivePath
    meta: ArchiveMeta
    committed_at: datetime  # by the store's clock


class ArchiveStore:
    """A store of archives. ``endpoint`` names it for people: the URL without secrets."""

    def __init__(self, backend: ObjectStore, *, endpoint: str, directory: Path | None = None) -> None:
        self._backend = backend
        self._directory = directory
        self.endpoint = endpoint

    @classmethod
    def from_url(
        cls, url: str, *, options: Mapping[str, Any] | None = None, create: bool = False
    ) -> "ArchiveStore":
        """Connect to ``file:///…``, ``s3://bucket/prefix``, ``gs://…``, ``az://…``.

        Or ``memory:///``. Nothing is contacted yet, but a directory must exist. ``create`` makes it: for the
        server's first start; a storage job never does, because a missing directory may be an unmounted disk.
        """
        connection = connect.open_backend(url, options=options or {}, create=create)
        return cls(connection.backend, endpoint=connection.endpoint, directory=connection.directory)

    @property
    def needs_expected_size(self) -> bool:
        """Whether ``open_writer`` needs ``expected_bytes``."""
        return self._directory is None

    async def probe(self) -> None:
        """Raise if the store as a whole is away. One small request."""
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                if self._directory is not None:
                    await asyncio.to_thread(connect.check_directory, self._directory)
                else:
                    await obstore.list(self._backend, _PROBE_PREFIX).collect_async()
        except LIBRARY_ERRORS as error:  # TimeoutError is an OSError
            raise access_error(error, "being probed", endpoint=self.endpoint) from error

    async def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]:
        """List all objects below ``prefix``, page by page, unordered.

        ``prefix`` matches whole path segments.
        """
        await self._require_directory()
        with self._translated("listing"):
            async for page in obstore.list(self._backend, prefix, chunk_size=PAGE_SIZE):
                yield [
                    ArchiveObject(
                        key=entry["path"],
                        size=entry["size"],
                        last_modified=entry["last_modified"],
                        parsed=parse_key(entry["path"]),
                    )
                    for entry in page
                ]

    async def find_committed(self, workspace_id: UUID, op_id: UUID | None = None) -> list[CommittedArchive]:
        """Find the complete archives of a workspace or of one operation, newest first.

        Skipped are a meta whose object is gone, one that vanishes meanwhile, and one that cannot be parsed:
        one damaged archive must neither hide the others nor prevent a new one.
        """
        objects: set[ArchivePath] = set()
        metas: dict[ArchivePath, datetime] = {}
        async for page in self.list_paths(prefix_of(workspace_id, op_id)):
            for entry in page:
                if entry.parsed is None:
                    continue
                if entry.parsed.is_meta:
                    metas[entry.parsed.path] = entry.last_modified
                else:
                    objects.add(entry.parsed.path)
        read_slots = asyncio.Semaphore(_META_READS_AT_ONCE)

        async def read(path: ArchivePath) -> CommittedArchive | None:
            async with read_slots:
                try:
                    raw = await self._get_small(path.meta_key)
                except ObjectMissing:
                    return None
            try:
                meta = parse_meta(raw, key=path.key)
            except EffectError:
                return None
            return CommittedArchive(path=path, meta=meta, committed_at=metas[path])

        found = await asyncio.gather(*(read(path) for path in metas if path in objects))
        archives = [archive for archive in found if archive is not None]
        return sorted(archives, key=lambda each: (each.committed_at, each.path.attempt), reverse=True)

    async def has_committed(self, workspace_id: UUID) -> bool:
        """Return whether any complete archive of this workspace exists. Lists names only."""
        objects: set[ArchivePath] = set()
        metas: set[ArchivePath] = set()
        async for page in self.list_paths(prefix_of(workspace_id)):
            for entry in page:
                if entry.parsed is not None:
                    (metas if entry.parsed.is_meta else objects).add(entry.parsed.path)
        return bool(objects & metas)

    async def read_meta(self, key: str) -> ArchiveMeta:
        """Read the meta of ``key``. Raises ``ARCHIVE_NOT_FOUND`` if never committed."""
        path = parse_archive_key(key)
        if path is None:
            raise EffectError(
                FailureCode.ARCHIVE_NOT_FOUND, f"{key!r} is not the key of an archive.", archive_key=key
            )
        try:
            raw = await self._get_small(path.meta_key)
            try:
                return parse_meta(raw, key=key)
            except EffectError:
                # A damaged meta is terminal for its workspace, so read again: a bit may have flipped on the wire.
                return parse_meta(await self._get_small(path.meta_key), key=key)
        except ObjectMissing as error:
            raise await self.missing(key) from error

    async def find_attempt(
        self, workspace_id: UUID, op_id: UUID, attempt: str
    ) -> tuple[ArchivePath, ArchiveMeta]:
        """Find a committed attempt, whatever its format. Raises ``ARCHIVE_NOT_FOUND``."""
        path = ArchivePath(workspace_id, op_id, attempt)
        try:
            return path, await self.read_meta(path.key)
        except EffectError as error:
            if error.failure is not FailureCode.ARCHIVE_NOT_FOUND:
                raise
        path = ArchivePath(workspace_id, op_id, attempt, 2)
        return path, await self.read_meta(path.key)

    async def put_meta(self, path: ArchivePath, meta: ArchiveMeta) -> None:
        """Write the meta, which commits the archive. Atomic and durable."""
        data = encode_meta(meta)
        with self._translated("writing the meta"):
            if self._directory is not None:
                await asyncio.to_thread(put_durably, self._directory, path.meta_key, data)
            else:
                await obstore.put_async(self._backend, path.meta_key, data, use_multipart=False)

    def open_writer(self, path: ArchivePath, *, expected_bytes: int = 0) -> ObjectWriter:
        """Stream a new object.

        ``expected_bytes`` sizes the parts: S3 takes at most 10 000 of them.
        """
        return open_writer(
            self._backend,
            path.key,
            directory=self._directory,
            expected_bytes=expected_bytes,
            endpoint=self.endpoint,
        )

    async def put_pack(self, path: PackPath, data: bytes | bytearray) -> None:
        """Write a pack, or the file index, in one request. Atomic and durable."""
        with self._translated("writing a pack"):
            if self._directory is not None:
                await asyncio.to_thread(put_durably, self._directory, path.key, data)
            else:
                await obstore.put_async(self._backend, path.key, data, use_multipart=False)

    async def remove_unfinished_packs(self, workspace_id: UUID) -> None:
        """Remove what killed jobs left half-written in a directory; only one job of a workspace runs at a time."""
        if self._directory is not None:
            folder = self._directory / packs_prefix(workspace_id)
            await asyncio.to_thread(remove_unfinished, folder)

    async def list_packs(self, workspace_id: UUID) -> dict[str, int]:
        """Return name and size of every pack of a workspace."""
        found: dict[str, int] = {}
        async for page in self.list_paths(packs_prefix(workspace_id)):
            for entry in page:
                if (pack := parse_pack_key(entry.key)) is not None:
                    found[pack.name] = entry.size
        return found

    async def delete_packs(self, packs: Sequence[PackPath]) -> None:
        """Delete packs. Idempotent."""
        await self._delete_keys([pack.key for pack in packs])
        if self._directory is not None:
            for pack in packs:
                folder = (self._directory / pack.key).parent
                await asyncio.to_thread(prune_folders, folder, self._directory)

    async def read_range(self, path: ArchivePath | PackPath, start: int, length: int) -> bytes:
        """Read a part of an object. Raises ``ARCHIVE_NOT_FOUND``."""
        try:
            with self._translated("reading", may_miss=True):
                return await read_range(
                    self._backend, path.key, start=start, length=length, directory=self._directory
                )
        except ObjectMissing as error:
            raise await self.missing(path.key) from error

    async def pack_names(self, path: ArchivePath, size: int) -> frozenset[str] | None:
        """Read which packs a manifest of ``size`` bytes names; None if it cannot be read.

        Committed or not. Raises ``ARCHIVE_NOT_FOUND`` if it is gone.
        """
        try:
            footer = await self.read_range(path, max(0, size - FOOTER.size), min(size, FOOTER.size))
            length = end_length(footer, size=size)
            end = await self.read_range(path, size - length, length)
            return frozenset(pack.name for pack in parse_end(end, size=size).packs)
        except HostileArchive:
            return None

    async def size_of(self, path: ArchivePath | PackPath) -> int:
        """Return the stored size of the object. Raises ``ARCHIVE_NOT_FOUND``."""
        try:
            with self._translated("looking at the object", may_miss=True):
                return (await obstore.head_async(self._backend, path.key))["size"]
        except ObjectMissing as error:
            raise await self.missing(path.key) from error

    async def stream(self, path: ArchivePath | PackPath, *, size: int) -> AsyncGenerator[bytes, None]:
        """Yield the object's ``size`` bytes in order, in pieces.

        A few requests ahead of the reader, in constant memory.
        """
        try:
            with self._translated("reading", may_miss=True):
                pieces = (
                    read_object(self._backend, path.key, size=size)
                    if self._directory is None
                    else read_file(self._directory, path.key, size=size)
                )
                async with aclosing(pieces):
                    async for piece in pieces:
                        yield piece
        except ObjectMissing as error:
            raise await self.missing(path.key) from error

    async def delete(self, paths: Sequence[ArchivePath]) -> None:
        """Delete attempts, all metas before all objects. Idempotent.

        A crash in between leaves debris, never a meta whose object is gone.
        """
        await self._delete_keys([path.meta_key for path in paths])
        await self._delete_keys([path.key for path in paths])
        if self._directory is not None:
            for path in paths:
                folder = (self._directory / path.key).parent
                await asyncio.to_thread(prune_folders, folder, self._directory)

    async def missing(self, key: str) -> EffectError:
        """Return the error for a missing object: lost, or the whole store is away."""
        await self.probe()
        if self._directory is not None and await asyncio.to_thread(connect.is_empty, self._directory):
            return EffectError(
                FailureCode.S3_ACCESS_ERROR,
                f"The archive store {self.endpoint} is completely empty. Is its disk mounted?",
                endpoint=self.endpoint,
                archive_key=key,
            )
        return EffectError(
            FailureCode.ARCHIVE_NOT_FOUND,
            f"There is no complete archive {key} in {self.endpoint}.",
            archive_key=key,
            endpoint=self.endpoint,
        )

    async def _delete_keys(self, every: Sequence[str]) -> None:
        for start in range(0, len(every), PAGE_SIZE):
            keys = list(every[start : start + PAGE_SIZE])
            try:
                with self._translated("deleting", may_miss=True):
                    await obstore.delete_async(self._backend, keys)
            except ObjectMissing:
                # Some stores report a missing object as an error; then delete one by one.
                await asyncio.gather(*(self._delete_one(key) for key in keys))

    async def _delete_one(self, key: str) -> None:
        try:
            with self._translated("deleting", may_miss=True):
                await obstore.delete_async(self._backend, key)
        except ObjectMissing:
            pass

    async def _get_small(self, key: str) -> bytes:
        await self._require_directory()
        with self._translated("reading a meta", may_miss=True):
            result = await obstore.get_async(self._backend, key)
            if result.meta["size"] > MAX_META_BYTES:
                return b""  # not a meta; the parser rejects it
            return bytes(await result.bytes_async())

    async def _require_directory(self) -> None:
        """Raise if the directory is missing: some versions of obstore list it as empty."""
        if self._directory is not None:
            await self.probe()

    def _translated(self, doing: str, *, may_miss: bool = False) -> AbstractContextManager[None]:
        return translated(doing, endpoint=self.endpoint, may_miss=may_miss)
