"""Restore an archive into a volume.

    meta ──► ours? ──► enough space? ──► download ──► sha256 ──► unzstd ──► member check ──► tar (staging)
                                   checksum equal and tar exited with 0? ──► swap in

Crash-only: every try starts over in a fresh staging place. Nothing becomes visible before the whole archive
was read and its checksum compared: a damaged archive leaves the old volume exactly as it was.
"""

import asyncio
import os
from contextlib import aclosing, suppress
from functools import partial
from pathlib import Path

from codehub.archives.binding import require_ours
from codehub.archives.file_index import FileIndex, open_root
from codehub.archives.generation import open_manifest, open_whole
from codehub.archives.keys import ArchivePath, PackPath, parse_archive_key
from codehub.archives.members import HostileArchive
from codehub.archives.meta import ArchiveMeta
from codehub.archives.report import JobResult, Reporter
from codehub.archives.request import JobRequest, Swap
from codehub.archives.store import ArchiveStore
from codehub.archives.swap import BesideVolume, StagingPlace, WithinVolume
from codehub.archives.tarball import unpack
from codehub.archives.unpacking import TarWriter, Unpacker
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.threads import in_executor, in_thread
from codehub.kit.trees import remove_tree

MARGIN_BYTES = 16 * 1024 * 1024
_BYTES_PER_FILE = 4096  # what the last, half-empty block of a file and its inode may take


async def restore(request: JobRequest, store: ArchiveStore, reporter: Reporter) -> JobResult:
    """Restore once. A crash leaves a staging place, which the next try removes."""
    key = request.archive_key or ""
    path, meta = await _read_own_meta(request, store, key)
    place = _staging_place(request)
    try:
        await in_thread(place.sweep)
        await in_thread(require_space, place.file_system, meta)
        await _restore_into(place, path, meta, store, reporter)
        if meta.format_version == 2 and request.archive_source_id is None:  # a copy's base has another folder
            with reporter.phase("index"):
                await _record_index(request.volume_path, path, meta, store)
    except OSError as error:
        raise EffectError(
            FailureCode.TAR_EXTRACT_FAILED,
            f"The home could not be put in place: {error}",
            action="restore",
            detail=str(error),
        ) from error
    return JobResult(
        archive_key=key,
        bytes=meta.data_bytes,
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
    unpack_format = _unpack_home if path.format_version == 1 else _unpack_generation
    await unpack_format(home, path, meta, store, reporter)


async def _unpack_generation(
    home: Path, path: ArchivePath, meta: ArchiveMeta, store: ArchiveStore, reporter: Reporter
) -> None:
    """Unpack format 2: its manifest is checked as a whole, and every chunk before tar gets it."""
    manifest = await open_whole(store, path, meta)
    total, done = meta.uncompressed_bytes, 0
    reporter.progress(done_bytes=0, total_bytes=total, files=0)
    tar = unpack(home)
    try:
        writer = TarWriter(tar, meta)
        async with aclosing(manifest.tar_stream()) as pieces:
            async for piece in pieces:
                await in_executor(None, partial(writer.feed_stream, piece), unblock=tar.kill)
                done += len(piece)
                reporter.progress(done_bytes=done, total_bytes=total, files=writer.check.files)
        await in_executor(None, partial(writer.finish_tar, path.key), unblock=tar.kill)
    finally:
        tar.close()


async def _unpack_home(
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


async def _record_index(volume: Path, path: ArchivePath, meta: ArchiveMeta, store: ArchiveStore) -> None:
    """Record how the restored files look, so that the next archive need not read them.

    If that fails, or the process dies here, the restore is as good: the next archive reads all files.
    """
    with suppress(EffectError, HostileArchive, OSError):
        manifest = await open_manifest(store, path, meta)
        index = FileIndex()
        root = open_root(volume)
        try:
            async with aclosing(manifest.folders()) as folders:
                async for folder in folders:
                    await in_thread(index.record, root, folder)
        finally:
            os.close(root)
        data = await in_thread(index.encode, meta.sha256)
        await store.put_pack(PackPath(path.workspace_id, "index"), data)


async def _hash(unpacker: Unpacker, piece: bytes, reporter: Reporter) -> None:
    with reporter.phase("hash"):
        await in_thread(unpacker.hash, piece)


def _staging_place(request: JobRequest) -> StagingPlace:
    if request.swap is Swap.INSIDE:
        if not request.volume_path.is_dir():
            raise EffectError(
                FailureCode.VOLUME_MISSING, f"There is no volume to restore into at {request.volume_path}."
            )
        return WithinVolume(request.volume_path)
    assert request.staging_dir is not None, "parse_request has checked it"
    return BesideVolume(request.volume_path, staging=request.staging_dir)
