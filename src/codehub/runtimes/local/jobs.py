"""Run storage jobs as processes: archive or restore one home.

The runtime knows neither tar nor object stores. It starts a command (given by the wiring), writes one
JSON object to its standard input and reads JSON lines from its standard output (``runtimes/job_protocol``).

**One per workspace.** The job holds ``flock`` on the workspace's ``{id}.job`` through an inherited descriptor, as
long as it lives: if the leader that started it dies, the job still holds it, and the next leader finds the lock
taken, kills the recorded job, and continues only when it has the lock.
"""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.base import FencingToken, ProgressCallback, StorageJob, StorageResult
from codehub.runtimes.job_protocol import find_message, find_progress, outcome
from codehub.runtimes.local import locks, logs
from codehub.runtimes.local.layout import Layout
from codehub.runtimes.local.processes import boot_id
from codehub.runtimes.local.records import UnreadableRecord, find_record, record_head
from codehub.runtimes.local.spawn import JOB_VARIABLE, DetachedProcess, job_environment, spawn_job
from codehub.runtimes.local.stop import end_all
from codehub.runtimes.local.threads import Threads

_LINE_LIMIT = 1024 * 1024
_LOCK_SECONDS = 30.0
_PIPE_SECONDS = 5.0


@dataclass(frozen=True)
class JobSettings:
    """Settings of storage jobs, as the wiring passes them."""

    command: Sequence[str]
    archive_url: str
    storage_options: Mapping[str, Any]
    env: Mapping[str, str]


@dataclass
class RunningJob:
    """A running job, for the call that started it.

    Made before the process and filled in by the thread that starts it: a call that is cancelled in between
    still knows what to kill.
    """

    child: DetachedProcess | None = None
    log_start: int = 0


@asynccontextmanager
async def without_job(
    layout: Layout, threads: Threads, workspace_id: UUID, *, token: FencingToken | None
) -> AsyncIterator[None]:
    """Exclude storage jobs for the block; end an outranked one, raise for any other.

    The caller holds the workspace's lock, under which jobs begin: where no job lock file exists there is no job,
    and none can begin.
    """
    if not layout.job_lock(workspace_id).exists():
        yield
        return
    lock_fd = await take_job_lock(layout, threads, workspace_id, token=token)
    try:
        yield
    finally:
        os.close(lock_fd)


async def take_job_lock(
    layout: Layout,
    threads: Threads,
    workspace_id: UUID,
    *,
    token: FencingToken | None,
    may_end_equal: bool = False,
) -> int:
    """Take the job lock, after ending an outranked job that held it; its descriptor.

    The caller closes it. Without a token any job is ended. The caller holds the workspace's lock, so no new job
    can begin. A crash here leaves either the old job, still recorded and locked, or none.
    """
    fd = locks.open_lock(layout.job_lock(workspace_id))
    try:
        deadline = monotonic() + _LOCK_SECONDS
        while not locks.try_lock(fd):
            with suppress(UnreadableRecord):  # then its process is not known: only wait for it
                await _end_recorded(layout, threads, workspace_id, token=token, may_end_equal=may_end_equal)
            if monotonic() > deadline:
                raise EffectError(FailureCode.STORAGE_JOB_FAILED, "an older storage job does not end")
            await asyncio.sleep(0.005)
        # The lock is free, but a child of a job that was killed alone may still write.
        with suppress(UnreadableRecord):
            await _end_recorded(layout, threads, workspace_id, token=None)
        layout.job(workspace_id).unlink(missing_ok=True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def start_job(
    layout: Layout,
    settings: JobSettings,
    job: StorageJob,
    running: RunningJob,
    *,
    token: FencingToken,
    lock_fd: int,
) -> None:
    """Start the job's process. It inherits the lock, also if we die right after."""
    log = layout.job_output(job.workspace_id)
    logs.rotate(log)
    running.log_start = logs.size_of(log)
    running.child = spawn_job(
        settings.command,
        record=layout.job(job.workspace_id),
        head=record_head(token=token, port=0, boot=boot_id()),
        lock_fd=lock_fd,
        output=log,
        cwd=layout.data_dir,
        env=job_environment(job.workspace_id, settings.env),
    )


async def follow_job(
    layout: Layout,
    settings: JobSettings,
    job: StorageJob,
    running: RunningJob,
    *,
    on_progress: ProgressCallback,
) -> StorageResult:
    """Read the job's messages until it ends; its result.

    The caller ends the job if this raises.
    """
    child = running.child
    assert child is not None
    assert child.stdin is not None
    assert child.stdout is not None
    await _write_order(child.stdin, _order(layout, settings, job))
    final: dict[str, Any] | None = None
    reader, transport = await _open_reader(child.stdout)
    closing = asyncio.create_task(_close_after_exit(child, transport))
    try:
        async for message in _messages(reader):
            if (progress := find_progress(message)) is not None:
                await on_progress(progress)
            else:
                final = message
    finally:
        closing.cancel()
        transport.close()
    exit_code = await _exit_code(child)
    tail = logs.last_lines(layout.job_output(job.workspace_id), since=running.log_start)
    return outcome(final, exit_code=exit_code, output=tail)


async def end_job(layout: Layout, threads: Threads, workspace_id: UUID, running: RunningJob) -> None:
    """Kill the job we started and confirm it gone.

    Its record is removed, unless a newer job has the lock.
    """
    child = running.child
    if child is None:
        return
    marker = f"{JOB_VARIABLE}={workspace_id}"
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # not reaped yet, so the pid is still this job's
        await _exit_code(child)
    fd = locks.open_lock(layout.job_lock(workspace_id))
    try:
        if not locks.try_lock(fd):
            return
        with suppress(UnreadableRecord):
            record = find_record(layout.job(workspace_id))
            if record is not None:
                await end_all(threads, record.identity, marker, grace_seconds=0)
        layout.job(workspace_id).unlink(missing_ok=True)
    finally:
        os.close(fd)


async def _end_recorded(
    layout: Layout,
    threads: Threads,
    workspace_id: UUID,
    *,
    token: FencingToken | None,
    may_end_equal: bool = False,
) -> None:
    """Kill the recorded job. A record not written yet is no error: the caller tries again."""
    record = find_record(layout.job(workspace_id))
    if record is None:
        return
    outranked = token is None or record.token < token or (may_end_equal and record.token == token)
    if not outranked:
        raise EffectError(
            FailureCode.VOLUME_IN_USE,
            "a storage job is using the volume",
            job_token=[record.token.op_seq, record.token.epoch],
        )
    await end_all(threads, record.identity, f"{JOB_VARIABLE}={workspace_id}", grace_seconds=0)


def _order(layout: Layout, settings: JobSettings, job: StorageJob) -> bytes:
    """The job's input, with credentials: standard input is in no process list."""
    order = {
        "kind": job.kind.value,
        "workspace_id": str(job.workspace_id),
        "op_id": str(job.op_id),
        "installation_id": layout.installation_id,
        "archive_key": job.archive_key,
        "archive_sha256": job.archive_sha256,
        "archive_source_id": str(job.archive_source_id) if job.archive_source_id else None,
        "format_version": job.format_version,
        "archive_url": settings.archive_url,
        "volume_path": str(layout.volume(job.workspace_id)),
        "staging_dir": str(layout.staging_of(job.workspace_id)),
        "storage_options": dict(settings.storage_options),
    }
    return json.dumps(order).encode() + b"\n"


async def _write_order(pipe: IO[bytes], order: bytes) -> None:
    """Write the order. It is far smaller than a pipe's buffer, so this does not wait for the job."""
    with suppress(BrokenPipeError), pipe:  # a job that ended at once: its exit code and output say why
        pipe.write(order)
        pipe.flush()


async def _open_reader(pipe: IO[bytes]) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    reader = asyncio.StreamReader(limit=_LINE_LIMIT)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
    return reader, transport


async def _messages(reader: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    while line := await reader.readline():
        if (message := find_message(line)) is not None:
            yield message


async def _close_after_exit(child: DetachedProcess, transport: asyncio.ReadTransport) -> None:
    """Close the pipe after the job's exit: a grandchild may hold it open for ever."""
    await _exit_code(child)
    await asyncio.sleep(_PIPE_SECONDS)
    transport.close()


async def _exit_code(child: DetachedProcess) -> int:
    pause = 0.001
    while (code := child.poll()) is None:
        await asyncio.sleep(pause)
        pause = min(pause * 2, 0.05)
    return code
