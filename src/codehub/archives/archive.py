"""Archive a volume: upload, read back, compare, and only then write the meta.

Format 1 is made here; format 2 (``incremental``) has the same frame:

    tar ──► zstd ──► sha256 ──► upload        read back ──► sha256 equal? ──► .meta

A piece is hashed and written at the same time, in two threads, while the next ones are packed (``packing``).

If the process dies anywhere before the meta, an object without meta stays behind, which is never read; the
next try uses another path. If it dies after the meta, the next try finds it and returns it.
"""

import asyncio
import hashlib
import threading
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from codehub.archives.binding import require_ours
from codehub.archives.incremental import Base, find_base, make_generation
from codehub.archives.keys import ArchivePath, PackPath, new_attempt, parse_archive_key
from codehub.archives.meta import ArchiveMeta, Binding
from codehub.archives.packing import Packer
from codehub.archives.report import JobResult, Reporter
from codehub.archives.request import JobRequest
from codehub.archives.store import ArchiveStore
from codehub.archives.survey import Survey, estimate_bytes, survey_volume
from codehub.archives.tarball import pack
from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.threads import in_executor, in_thread

_ESTIMATE_AFTER_SECONDS = 2.0
"""How long packing must last before the size of the home is estimated for a progress bar. The estimate costs a tenth
of the time that packing small files takes, and a job that ends within two seconds needs no progress bar."""

_CLEAN_UP_SECONDS = 15


async def archive(request: JobRequest, store: ArchiveStore, reporter: Reporter) -> JobResult:
    """Return a committed attempt of this operation, or make one. Idempotent."""
    binding = Binding(request.workspace_id, request.op_id, request.installation_id)
    for committed in await store.find_committed(request.workspace_id, request.op_id):
        # A foreign binding, or none (an older release), is not reused: a new attempt is made beside it.
        if committed.meta.binding == binding:
            return _result(committed.path, committed.meta, reused=True)
    if not request.volume_path.is_dir():
        raise EffectError(
            FailureCode.VOLUME_MISSING,
            f"There is no volume to archive at {request.volume_path}.",
            expected="volume_exists=True",
            actual="False",
        )
    path = new_attempt(request.workspace_id, request.op_id, request.format_version)
    new_packs: list[PackPath] = []
    try:
        meta = await _make_attempt(request, path, store, reporter, binding, new_packs)
        with reporter.phase("commit"):
            await store.put_meta(path, meta)
    except BaseException:
        await _clean_up(path, store, new_packs)
        raise
    return _result(path, meta, reused=False)


async def _make_attempt(
    request: JobRequest,
    path: ArchivePath,
    store: ArchiveStore,
    reporter: Reporter,
    binding: Binding,
    new_packs: list[PackPath],
) -> ArchiveMeta:
    if request.format_version == 1:
        return await _make(request.volume_path, path, store, reporter, binding=binding)
    base = await _find_base(request, store)
    return await make_generation(
        *(request.volume_path, path, store, reporter), binding=binding, base=base, new_packs=new_packs
    )


async def _find_base(request: JobRequest, store: ArchiveStore) -> Base | None:
    """Find the generation that the volume was restored from, as the database names it; None: all is stored anew."""
    path = parse_archive_key(request.archive_key or "")
    if path is None or path.format_version != 2 or request.archive_sha256 is None:
        return None
    if (
        request.archive_source_id is not None
    ):  # a copy stores its home once more: packs belong to one workspace
        return None
    try:
        meta = await store.read_meta(path.key)
        require_ours(meta, path, request)
    except EffectError as error:
        if error.failure is FailureCode.S3_ACCESS_ERROR:
            raise
        return None
    return await find_base(store, path, meta)


async def _make(
    volume: Path, path: ArchivePath, store: ArchiveStore, reporter: Reporter, *, binding: Binding
) -> ArchiveMeta:
    """Upload and read back; return the meta to commit."""
    survey = asyncio.create_task(in_thread(survey_volume, volume))
    delay = 0 if store.needs_expected_size else _ESTIMATE_AFTER_SECONDS
    estimate = asyncio.create_task(_estimate(volume, after_seconds=delay))
    try:
        # A directory needs no size in advance; elsewhere the size of the parts depends on the total.
        expected_bytes = await estimate if store.needs_expected_size else 0
        with reporter.phase("upload"):
            packed = await _upload(
                *(volume, path, store, reporter),
                survey=survey,
                estimate=estimate,
                expected_bytes=expected_bytes,
            )
        surveyed = await survey
    finally:
        survey.cancel()
        estimate.cancel()
    surveyed.require_restorable()
    with reporter.phase("read_back"):
        await _read_back(path, packed, store, reporter, files=surveyed.files)
    return ArchiveMeta(
        sha256=packed.sha256,
        bytes=packed.bytes,
        files=surveyed.files,
        uncompressed_bytes=packed.uncompressed_bytes,
        skipped=packed.skipped,
        created_at=datetime.now(UTC),  # for people; no decision depends on it
        binding=binding,
    )


async def _estimate(volume: Path, *, after_seconds: float) -> int:
    await asyncio.sleep(after_seconds)
    stop = threading.Event()
    return await in_executor(None, partial(estimate_bytes, volume, stop=stop), unblock=stop.set)


@dataclass(frozen=True)
class Packed:
    """Checksum and sizes of what was uploaded."""

    sha256: str
    bytes: int
    uncompressed_bytes: int
    skipped: int


async def _upload(
    volume: Path,
    path: ArchivePath,
    store: ArchiveStore,
    reporter: Reporter,
    *,
    survey: "asyncio.Task[Survey]",
    estimate: "asyncio.Task[int]",
    expected_bytes: int,
) -> Packed:
    tar = pack(volume)
    digest, size = hashlib.sha256(), 0
    try:
        packer = Packer(tar)
        reporter.progress(done_bytes=0, total_bytes=None, files=0)
        async with (
            store.open_writer(path, expected_bytes=expected_bytes) as writer,
            packer.pieces() as pieces,
        ):
            async for piece in pieces:
                hashing = asyncio.create_task(_hash(digest, piece, reporter))
                try:
                    await writer.write(piece)
                finally:
                    await hashing
                size += len(piece)
                _report_packing(reporter, packer.bytes_read, survey, estimate)
        return Packed(
            sha256=digest.hexdigest(),
            bytes=size,
            uncompressed_bytes=packer.bytes_read,
            skipped=tar.sockets,
        )
    finally:
        tar.close()


async def _hash(digest: "hashlib._Hash", piece: bytes, reporter: Reporter) -> None:
    with reporter.phase("hash"):
        await in_thread(digest.update, piece)


def _report_packing(
    reporter: Reporter, done_bytes: int, survey: "asyncio.Task[Survey]", estimate: "asyncio.Task[int]"
) -> None:
    if not (survey.done() and estimate.done()):
        reporter.progress(done_bytes=done_bytes, total_bytes=None, files=0)
        return
    share = min(1.0, done_bytes / max(1, estimate.result()))
    # Every byte is processed twice, packed and read back: hence twice the estimate.
    reporter.progress(
        done_bytes=done_bytes,
        total_bytes=2 * estimate.result(),
        files=int(survey.result().files * share),
    )


async def _read_back(
    path: ArchivePath, packed: Packed, store: ArchiveStore, reporter: Reporter, *, files: int
) -> None:
    """Compare the stored object with what was sent. Raises ``READ_BACK_MISMATCH``."""
    stored = await store.size_of(path)
    if stored != packed.bytes:
        raise _mismatch(path, f"{stored} bytes are stored, {packed.bytes} were sent")
    digest = hashlib.sha256()
    done = 0
    async with aclosing(store.stream(path, size=packed.bytes)) as pieces:
        async for piece in pieces:
            await in_thread(digest.update, piece)
            done += len(piece)
            reporter.progress(
                done_bytes=packed.uncompressed_bytes * (packed.bytes + done) // packed.bytes,
                total_bytes=2 * packed.uncompressed_bytes,
                files=files,
            )
    if digest.hexdigest() != packed.sha256:
        raise _mismatch(path, "the bytes differ")


async def _clean_up(path: ArchivePath, store: ArchiveStore, new_packs: Sequence[PackPath]) -> None:
    """Delete what a failed try wrote, packs last. If that fails, the archive GC deletes it."""
    with suppress(EffectError, TimeoutError):
        async with asyncio.timeout(_CLEAN_UP_SECONDS):
            await store.delete([path])
            await store.delete_packs(new_packs)


def _mismatch(path: ArchivePath, detail: str) -> EffectError:
    return EffectError(
        FailureCode.READ_BACK_MISMATCH,
        f"The archive store did not give back what was uploaded: {detail}.",
        action="archive",
        archive_key=path.key,
        detail=detail,
    )


def _result(path: ArchivePath, meta: ArchiveMeta, *, reused: bool) -> JobResult:
    return JobResult(
        archive_key=path.key,
        bytes=meta.data_bytes,
        files=meta.files,
        skipped=meta.skipped,
        extra={
            "uncompressed_bytes": meta.uncompressed_bytes,
            "sha256": meta.sha256,
            "reused": reused,
            "new_bytes": meta.new_bytes or meta.bytes,
        },
    )
