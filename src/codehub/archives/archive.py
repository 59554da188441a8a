"""Volume → archive. The order protects the data: upload, read back, compare, and only then the meta.

    tar ──► zstd ──► sha256 ──► upload        read back ──► sha256 equal? ──► .meta

One thread feeds zstd from tar's pipe and does nothing else, so that its workers never wait for a hash or
for the store; the piece before is hashed and written meanwhile.

If the process dies anywhere before the meta, an object without meta stays behind, which nobody ever
reads; the next try uses another path. If it dies after the meta, the next try finds it and is done.
"""

import asyncio
import hashlib
import os
from collections.abc import Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from codehub.archives.keys import ArchivePath, new_attempt
from codehub.archives.meta import ArchiveMeta
from codehub.archives.report import JobResult, Reporter
from codehub.archives.request import JobRequest
from codehub.archives.store import ArchiveStore
from codehub.archives.survey import Survey, survey_volume
from codehub.archives.tarball import PIPE_BYTES, Tar, pack
from codehub.archives.threads import finish_in_thread, read_ahead
from codehub.domain.errors import EffectError, FailureCode

LEVEL = 3
MAX_COMPRESSION_THREADS = 8
COMPRESSION_JOB_BYTES = 2 * 1024 * 1024
"""What one thread of zstd takes at a time. Its own choice, 8 MiB, costs 57 MiB of memory per thread; this
costs 17 and compresses no worse. Half of it would compress 3 % worse and cost more time: every job first
looks again at the last 256 KiB of the one before."""

_PIECE_BYTES = 2 * 1024 * 1024
_CLEAN_UP_SECONDS = 15


async def archive(request: JobRequest, store: ArchiveStore, reporter: Reporter) -> JobResult:
    """One try. Finds a committed attempt of this operation, or makes one."""
    committed = await store.find_committed(request.workspace_id, request.op_id)
    if committed:
        return _result(committed[0].path, committed[0].meta, reused=True)
    if not request.volume_path.is_dir():
        raise EffectError(
            FailureCode.VOLUME_MISSING,
            f"There is no volume to archive at {request.volume_path}.",
            expected="volume_exists=True",
            actual="False",
        )
    path = new_attempt(request.workspace_id, request.op_id)
    try:
        meta = await _make(request.volume_path, path, store, reporter)
        with reporter.phase("commit"):
            await store.put_meta(path, meta)
    except BaseException:
        await _clean_up(path, store)
        raise
    return _result(path, meta, reused=False)


async def _make(volume: Path, path: ArchivePath, store: ArchiveStore, reporter: Reporter) -> ArchiveMeta:
    """Upload and read back; the meta that may be written now."""
    survey = asyncio.create_task(finish_in_thread(survey_volume, volume))
    try:
        # A directory takes any size; everywhere else the size of the parts follows from the size of all.
        expected_bytes = (await survey).bytes if store.needs_expected_size else 0
        with reporter.phase("upload"):
            packed = await _upload(
                volume, path, store, reporter, survey=survey, expected_bytes=expected_bytes
            )
        surveyed = await survey
    finally:
        survey.cancel()
    surveyed.require_restorable()
    with reporter.phase("read_back"):
        await _read_back(path, packed, store, reporter, files=surveyed.files)
    return ArchiveMeta(
        sha256=packed.sha256,
        bytes=packed.bytes,
        files=surveyed.files,
        uncompressed_bytes=packed.uncompressed_bytes,
        skipped=packed.skipped,
        created_at=datetime.now(UTC),  # for people; nothing is decided by it
    )


@dataclass(frozen=True)
class Packed:
    """What went up."""

    sha256: str
    bytes: int
    uncompressed_bytes: int
    skipped: int


class Packer:
    """tar's output, compressed. ``next_piece`` blocks: call it in a thread."""

    def __init__(self, tar: Tar) -> None:
        self.bytes_read = 0
        self._tar = tar
        self._pieces = self._compress()

    def next_piece(self) -> bytes:
        """The next compressed bytes; empty at the end, which is reached only if tar was satisfied."""
        return next(self._pieces, b"")

    def _compress(self) -> Iterator[bytes]:
        chunker = _new_compressor().chunker(chunk_size=_PIECE_BYTES)
        while data := self._tar.pipe.read(PIPE_BYTES):
            self.bytes_read += len(data)
            yield from chunker.compress(data)
        self._tar.wait()
        yield from chunker.finish()  # type: ignore[no-untyped-call]  # its stub forgot the annotation


async def _upload(
    volume: Path,
    path: ArchivePath,
    store: ArchiveStore,
    reporter: Reporter,
    *,
    survey: "asyncio.Task[Survey]",
    expected_bytes: int,
) -> Packed:
    tar = pack(volume)
    digest, size = hashlib.sha256(), 0
    try:
        packer = Packer(tar)
        reporter.progress(done_bytes=0, total_bytes=None, files=0)
        async with (
            store.open_writer(path, expected_bytes=expected_bytes) as writer,
            aclosing(read_ahead(packer.next_piece, unblock=tar.kill)) as pieces,
        ):
            async for piece in pieces:
                with reporter.phase("hash"):
                    await finish_in_thread(digest.update, piece)
                await writer.write(piece)
                size += len(piece)
                _report_packing(reporter, packer, survey)
        return Packed(
            sha256=digest.hexdigest(),
            bytes=size,
            uncompressed_bytes=packer.bytes_read,
            skipped=tar.sockets,
        )
    finally:
        tar.close()


def _report_packing(reporter: Reporter, packer: Packer, survey: "asyncio.Task[Survey]") -> None:
    done = packer.bytes_read
    if not survey.done():
        reporter.progress(done_bytes=done, total_bytes=None, files=0)
        return
    surveyed = survey.result()
    share = min(1.0, done / max(1, surveyed.bytes))
    # Every byte is handled twice, packed and read back: hence twice the estimate.
    reporter.progress(done_bytes=done, total_bytes=2 * surveyed.bytes, files=int(surveyed.files * share))


async def _read_back(
    path: ArchivePath, packed: Packed, store: ArchiveStore, reporter: Reporter, *, files: int
) -> None:
    """Compare what the store gives back with what we sent. Raises ``READ_BACK_MISMATCH``."""
    stored = await store.size_of(path)
    if stored != packed.bytes:
        raise _mismatch(path, f"{stored} bytes are stored, {packed.bytes} were sent")
    digest = hashlib.sha256()
    done = 0
    async with aclosing(store.stream(path, size=packed.bytes)) as pieces:
        async for piece in pieces:
            await finish_in_thread(digest.update, piece)
            done += len(piece)
            reporter.progress(
                done_bytes=packed.uncompressed_bytes * (packed.bytes + done) // packed.bytes,
                total_bytes=2 * packed.uncompressed_bytes,
                files=files,
            )
    if digest.hexdigest() != packed.sha256:
        raise _mismatch(path, "the bytes differ")


async def _clean_up(path: ArchivePath, store: ArchiveStore) -> None:
    """Leave nothing of a failed try. If the store does not let us, the archive GC will."""
    with suppress(EffectError, TimeoutError):
        async with asyncio.timeout(_CLEAN_UP_SECONDS):
            await store.delete([path])


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
        bytes=meta.bytes,
        files=meta.files,
        skipped=meta.skipped,
        extra={"uncompressed_bytes": meta.uncompressed_bytes, "sha256": meta.sha256, "reused": reused},
    )


def _new_compressor() -> zstandard.ZstdCompressor:
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL,
        threads=min(available, MAX_COMPRESSION_THREADS),
        job_size=COMPRESSION_JOB_BYTES,
        write_content_size=False,
    )
    return zstandard.ZstdCompressor(compression_params=parameters)
