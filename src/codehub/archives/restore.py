"""Restore an archive into a volume.

    meta ──► ours? ──► enough space? ──► download ──► sha256 ──► unzstd ──► member check ──► tar (staging)
                                   checksum equal and tar exited with 0? ──► swap in

Crash-only: every try starts over in a fresh staging place. Nothing becomes visible before the whole archive
was read and its checksum compared: a damaged archive leaves the old volume exactly as it was.
"""

import asyncio
import hashlib
import io
import os
from contextlib import aclosing, suppress
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import zstandard

from codehub.archives.keys import ArchivePath, parse_archive_key
from codehub.archives.members import HostileArchive, MemberCheck
from codehub.archives.meta import ArchiveMeta, Binding
from codehub.archives.report import JobResult, Reporter
from codehub.archives.request import JobRequest, Swap
from codehub.archives.store import ArchiveStore
from codehub.archives.swap import BesideVolume, InsideVolume, StagingPlace
from codehub.archives.tarball import Tar, unpack
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.threads import in_executor, in_thread
from codehub.kit.trees import remove_tree

MARGIN_BYTES = 16 * 1024 * 1024
_BYTES_PER_FILE = 4096  # what the last, half-empty block of a file and its inode may take
_OUTPUT_BYTES = 1024 * 1024


async def restore(request: JobRequest, store: ArchiveStore, reporter: Reporter) -> JobResult:
    """Restore once. A crash leaves a staging place, which the next try removes."""
    key = request.archive_key or ""
    path, meta = await _read_own_meta(request, store, key)
    place = _staging_place(request)
    try:
        await in_thread(place.sweep)
        await in_thread(require_space, place.file_system, meta)
        await _restore_into(place, path, meta, store, reporter)
    except OSError as error:
        raise EffectError(
            FailureCode.TAR_EXTRACT_FAILED,
            f"The home could not be put in place: {error}",
            action="restore",
            detail=str(error),
        ) from error
    return JobResult(
        archive_key=key,
        bytes=meta.bytes,
        files=meta.files,
        skipped=meta.skipped,
        extra={
            "uncompressed_bytes": meta.uncompressed_bytes,
            "sha256": meta.sha256,
            "bound": meta.binding is not None or request.archive_sha256 is not None,
        },
    )


async def _read_own_meta(
    request: JobRequest, store: ArchiveStore, key: str
) -> tuple[ArchivePath, ArchiveMeta]:
    meta = await store.read_meta(key)
    path = parse_archive_key(key)
    assert path is not None, "read_meta has checked it"
    try:
        require_ours(meta, path, request)
    except EffectError:
        # A mismatch is terminal for its workspace, so read again: a bit may have flipped on the wire.
        meta = await store.read_meta(key)
        require_ours(meta, path, request)
    return path, meta


def require_ours(meta: ArchiveMeta, path: ArchivePath, request: JobRequest) -> None:
    """Raise ``ARCHIVE_MISMATCH`` (data lost) unless the archive is this workspace's.

    Its checksum must be the one the database committed together with its key; workspace, operation and
    installation must be the ones its meta names. What an older release did not record cannot be compared.
    """
    expected = Binding(request.workspace_id, path.op_id, request.installation_id)
    if path.workspace_id != request.workspace_id:
        raise _not_ours(path, "it lies in the folder of another workspace")
    if meta.binding is not None:
        for field in fields(Binding):
            found, wanted = getattr(meta.binding, field.name), getattr(expected, field.name)
            if found != wanted:
                what = _NAMED[field.name]
                raise _not_ours(
                    path, f"its meta names another {what}", expected=str(wanted), actual=ascii(found)
                )
    if request.archive_sha256 is not None and meta.sha256 != request.archive_sha256:
        raise _not_ours(
            path,
            "its checksum is not the one that was committed with its key",
            expected=request.archive_sha256,
            actual=meta.sha256,
        )


_NAMED = {"workspace_id": "workspace", "op_id": "operation", "installation_id": "installation"}


def _not_ours(path: ArchivePath, why: str, **compared: str) -> EffectError:
    return EffectError(
        FailureCode.ARCHIVE_MISMATCH,
        f"The archive in this place is not the one that was made of this workspace: {why}. "
        "The volume was left as it was.",
        archive_key=path.key,
        detail=why,
        **compared,
    )


def require_space(directory: Path, meta: ArchiveMeta) -> None:
    """Raise ``NO_SPACE`` before a byte is written, not in the middle."""
    needed = meta.uncompressed_bytes + meta.files * _BYTES_PER_FILE + MARGIN_BYTES
    status = os.statvfs(directory)
    free = status.f_bavail * status.f_frsize
    if free < needed:
        raise EffectError(
            FailureCode.NO_SPACE,
            f"No space for the restore: it needs {needed:,} bytes, {free:,} are free at {directory}.",
            action="restore",
            needed_bytes=needed,
            free_bytes=free,
        )
    if status.f_files and status.f_favail < meta.files:  # some file systems do not count inodes: f_files is 0
        raise EffectError(
            FailureCode.NO_SPACE,
            f"No space for the restore: it has {meta.files:,} files, the file system at {directory} "
            f"takes {status.f_favail:,} more.",
            action="restore",
            needed_files=meta.files,
            free_files=status.f_favail,
        )


class Unpacker:
    """Hashes, decompresses and checks pieces, and writes them to tar. Blocking.

    Every piece goes to both ``hash`` and ``feed``. An error on the way is kept and the rest is still hashed,
    because only the checksum shows whether the archive is damaged or the error is our own.
    """

    def __init__(self, tar: Tar, meta: ArchiveMeta) -> None:
        self.check = MemberCheck()
        self.bytes = 0
        self._tar = tar
        self._meta = meta
        self._digest = hashlib.sha256()
        self._fault: Exception | None = None
        self._tar_exited = False
        # Passes decompressed bytes to ``self.take`` in bounded pieces, however well they compress.
        self._decompressor = zstandard.ZstdDecompressor().stream_writer(
            cast(IO[bytes], _Sink(self)), write_size=_OUTPUT_BYTES
        )

    def hash(self, data: bytes) -> None:
        """Hash a piece. Safe beside ``feed`` in another thread: the two share nothing."""
        self._digest.update(data)

    def feed(self, data: bytes) -> None:
        """Decompress, check and extract a piece. Errors are kept for ``finish``."""
        self.bytes += len(data)
        if self._fault is not None:
            return
        try:
            self._decompressor.write(data)
        except (zstandard.ZstdError, HostileArchive, OSError) as error:
            self._fault = error

    def take(self, data: bytes) -> None:
        """Check decompressed bytes and write them to tar."""
        self.check.feed(data)
        if self.check.bytes > self._meta.uncompressed_bytes:
            raise HostileArchive("more data than its meta says")
        if self._tar_exited:
            return
        view = memoryview(data)
        try:
            while view:
                view = view[self._tar.pipe.write(view) :]
        except BrokenPipeError:
            # tar exits at the end mark and does not read the padding behind it. Anywhere else it exited because of
            # an error, which its exit code shows later.
            if not self.check.ended:
                raise
            self._tar_exited = True

    def finish(self, key: str) -> None:
        """Raise unless the files are exactly those archived. Call it after the last piece."""
        if self._digest.hexdigest() != self._meta.sha256:
            raise EffectError(
                FailureCode.CHECKSUM_MISMATCH,
                "The archive is damaged: its checksum does not match. The volume was left as it was.",
                archive_key=key,
                detail="checksum mismatch",
            )
        if isinstance(self._fault, HostileArchive | zstandard.ZstdError):
            raise _refused(key, self._fault) from self._fault
        with suppress(BrokenPipeError):
            self._tar.pipe.close()
        try:
            self._tar.wait()
        except EffectError as error:
            raise _no_space(error) or error from error
        if self._fault is not None:  # tar exited with 0 before its input ended
            raise _refused(key, self._fault) from self._fault
        try:
            self.check.finish()
        except HostileArchive as error:
            raise _refused(key, error) from error


class _Sink(io.RawIOBase):
    """The file-like object that zstandard writes to."""

    def __init__(self, unpacker: Unpacker) -> None:
        self._unpacker = unpacker

    def write(self, data: Any, /) -> int:
        self._unpacker.take(data)
        return len(data)


async def _restore_into(
    place: StagingPlace, path: ArchivePath, meta: ArchiveMeta, store: ArchiveStore, reporter: Reporter
) -> None:
    home = await in_thread(place.make)
    try:
        try:
            with reporter.phase("unpack"):
                await _unpack(home, path, meta, store, reporter)
        except EffectError as error:
            if error.failure is not FailureCode.CHECKSUM_MISMATCH:
                raise
            # "Damaged" is terminal: it is not retried. So it is raised only after a second download agrees, and a
            # bit that flipped on the wire is not taken for lost data.
            await in_thread(remove_tree, home)
            home = await in_thread(place.make)
            with reporter.phase("unpack"):
                await _unpack(home, path, meta, store, reporter)
        with reporter.phase("make_durable"):
            await in_thread(place.make_durable, home)
        with reporter.phase("publish"):
            await in_thread(place.publish, home)
    except BaseException:
        with suppress(OSError):
            await in_thread(place.sweep)
        raise


async def _unpack(
    home: Path, path: ArchivePath, meta: ArchiveMeta, store: ArchiveStore, reporter: Reporter
) -> None:
    stored = await store.size_of(path)
    if stored != meta.bytes:
        raise EffectError(
            FailureCode.CHECKSUM_MISMATCH,
            f"The archive is damaged: it has {stored} bytes instead of {meta.bytes}. "
            "The volume was left as it was.",
            archive_key=path.key,
            detail="wrong size",
        )
    tar = unpack(home)
    try:
        unpacker = Unpacker(tar, meta)
        reporter.progress(done_bytes=0, total_bytes=meta.bytes, files=0)
        async with aclosing(store.stream(path, size=meta.bytes)) as pieces:
            async for piece in pieces:
                async with asyncio.TaskGroup() as both:
                    both.create_task(_hash(unpacker, piece, reporter))
                    both.create_task(in_executor(None, partial(unpacker.feed, piece), unblock=tar.kill))
                reporter.progress(
                    done_bytes=unpacker.bytes, total_bytes=meta.bytes, files=unpacker.check.files
                )
        await in_executor(None, partial(unpacker.finish, path.key), unblock=tar.kill)
    finally:
        tar.close()


async def _hash(unpacker: Unpacker, piece: bytes, reporter: Reporter) -> None:
    with reporter.phase("hash"):
        await in_thread(unpacker.hash, piece)


def _staging_place(request: JobRequest) -> StagingPlace:
    if request.swap is Swap.INSIDE:
        if not request.volume_path.is_dir():
            raise EffectError(
                FailureCode.VOLUME_MISSING, f"There is no volume to restore into at {request.volume_path}."
            )
        return InsideVolume(request.volume_path)
    assert request.staging_dir is not None, "parse_request has checked it"
    return BesideVolume(request.volume_path, staging=request.staging_dir)


def _refused(key: str, why: Exception) -> EffectError:
    return EffectError(
        FailureCode.TAR_EXTRACT_FAILED,
        f"The archive was refused: it holds {why}." if isinstance(why, HostileArchive) else f"{why}",
        action="restore",
        archive_key=key,
        detail=str(why),
    )


def _no_space(error: EffectError) -> EffectError | None:
    """Return ``NO_SPACE`` if tar hit a full disk: another process was writing too."""
    if not any("No space left on device" in line for line in error.context.get("errors", ())):
        return None
    return EffectError(
        FailureCode.NO_SPACE,
        "The disk became full during the restore. The volume was left as it was.",
        action="restore",
    )
