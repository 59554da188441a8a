"""The storage job: ``python -m codehub.archives.job [FILE]`` runs one archive or restore.

Stateless and crash-only. It reads one JSON object (``request``) from the file, or from standard input until end of
file, writes JSON lines (``report``) to standard output, and exits with 0 or 1. It has no database connection; the
process that starts it holds the workspace's lock for its lifetime and decides what follows. It may be killed at any
instruction: the next job with the same request completes the work.

SIGTERM ends it gracefully: it aborts its upload and removes its staging place.
"""

import asyncio
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path

from codehub.archives.archive import archive
from codehub.archives.report import JobResult, Reporter
from codehub.archives.request import Direction, JobRequest, parse_request
from codehub.archives.restore import restore
from codehub.archives.retries import with_retries
from codehub.archives.store import ArchiveStore
from codehub.domain.errors import EffectError, FailureCode


def main() -> int:
    """Run the job of the file named on the command line, or of standard input; return the exit code."""
    # A process group of its own, so that one kill of the group ends tar too.
    with suppress(OSError):
        os.setpgid(0, 0)
    reporter = Reporter(sys.stdout)
    try:
        reporter.done(asyncio.run(_run(_read_request(), reporter)))
    except BrokenPipeError:
        return _discard_output()
    except EffectError as error:
        return _failed(reporter, error)
    except asyncio.CancelledError:
        return _failed(
            reporter, EffectError(FailureCode.STORAGE_JOB_FAILED, "The storage job was told to stop.")
        )
    except Exception as error:  # noqa: BLE001 -- the outermost frame: a defect is reported as a failure
        traceback.print_exc()
        message = f"The storage job stumbled: {type(error).__name__}: {error}"
        return _failed(reporter, EffectError(FailureCode.STORAGE_JOB_FAILED, message))
    return 0


def _read_request() -> bytes:
    if len(sys.argv) < 2:
        return sys.stdin.buffer.read()
    try:
        return Path(sys.argv[1]).read_bytes()
    except OSError as error:
        message = f"The storage job cannot read its request: {error}"
        raise EffectError(FailureCode.STORAGE_JOB_FAILED, message) from error


async def _run(raw: bytes, reporter: Reporter) -> JobResult:
    request = parse_request(raw)
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)

    async def attempt() -> JobResult:
        # A new connection for every try: the directory may have been mounted meanwhile.
        store = ArchiveStore.from_url(request.archive_url, options=request.storage_options)
        return await _perform(request, store, reporter)

    return await with_retries(attempt, delays=request.retry_delays)


async def _perform(request: JobRequest, store: ArchiveStore, reporter: Reporter) -> JobResult:
    match request.kind:
        case Direction.ARCHIVE:
            return await archive(request, store, reporter)
        case Direction.RESTORE:
            return await restore(request, store, reporter)


def _failed(reporter: Reporter, error: EffectError) -> int:
    try:
        reporter.failed(error)
    except BrokenPipeError:
        return _discard_output()
    return 1


def _discard_output() -> int:
    """Redirect stdout after a broken pipe: the leader is gone.

    Otherwise the interpreter reports the broken pipe again at its exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1


if __name__ == "__main__":
    exit_code = main()
    sys.stderr.flush()
    # Everything is written, nothing is left to clean up. An ordinary exit would finalise the interpreter while
    # obstore's threads still run, which can end in SIGABRT.
    os._exit(exit_code)
