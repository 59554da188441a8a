"""Write a storage job's report: JSON lines on standard output, one final line.

    {"event": "progress", "done_bytes": 1048576, "total_bytes": 9000000, "files": 120}
    {"event": "done", "archive_key": "…", "bytes": 4000000, "files": 950, "skipped": 0, "seconds": {…}, …}
    {"event": "failed", "code": "S3_ACCESS_ERROR", "message": "…", "context": {…}}

A job that ends without a final line has failed; the caller needs no other sign of a crash.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from codehub.domain.errors import EffectError
from codehub.kit import clock

PROGRESS_INTERVAL_SECONDS = 0.5


@dataclass(frozen=True)
class JobResult:
    """The result of a successful storage job."""

    archive_key: str
    bytes: int
    files: int
    skipped: int
    extra: Mapping[str, Any]


class Reporter:
    """Writes the lines.

    If the reader is gone, writing raises, which ends the job: the next one starts over, as a crash-only job
    may.
    """

    def __init__(self, output: IO[str], *, now: Callable[[], float] = clock.monotonic) -> None:
        self._output = output
        self._now = now
        self._last_at: float | None = None
        self._unwritten: dict[str, Any] | None = None
        self._seconds: defaultdict[str, float] = defaultdict(float)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the duration of the block to the seconds of ``name``. Phases may nest."""
        began_at = self._now()
        try:
            yield
        finally:
            self._seconds[name] += self._now() - began_at

    def progress(self, *, done_bytes: int, total_bytes: int | None, files: int) -> None:
        """Write progress, at most two lines a second.

        The first and the last one are always written.
        """
        line = {
            "event": "progress",
            "done_bytes": done_bytes,
            "total_bytes": None if total_bytes is None else max(total_bytes, done_bytes),
            "files": files,
        }
        now = self._now()
        if self._last_at is not None and now - self._last_at < PROGRESS_INTERVAL_SECONDS:
            self._unwritten = line
            return
        self._last_at, self._unwritten = now, None
        self._write(line)

    def done(self, result: JobResult) -> None:
        if self._unwritten is not None:
            self._write(self._unwritten)
        self._write(
            {
                "event": "done",
                "archive_key": result.archive_key,
                "bytes": result.bytes,
                "files": result.files,
                "skipped": result.skipped,
                **result.extra,
                "seconds": {name: round(seconds, 3) for name, seconds in self._seconds.items()},
            }
        )

    def failed(self, error: EffectError) -> None:
        self._write(
            {
                "event": "failed",
                "code": error.failure.value,
                "message": error.message,
                "context": error.context,
            }
        )

    def _write(self, line: Mapping[str, Any]) -> None:
        self._output.write(json.dumps(line, default=str) + "\n")
        self._output.flush()
