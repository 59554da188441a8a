"""Protocol between a storage job and the runtime that started it.

One JSON object goes to the job's standard input; JSON lines come from its standard output:

    {"event": "progress", "done_bytes": 1, "total_bytes": 2, "files": 3}
    {"event": "done", "archive_key": "…", "bytes": 1, "files": 2, "skipped": 0, "sha256": "…"}
    {"event": "failed", "code": "TAR_CREATE_FAILED", "message": "…", "context": {}}

Runtimes know neither tar nor object stores; this is all they know of a job.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import StorageProgress, StorageResult

_RESULT_FIELDS = {"event", "archive_key", "bytes", "files", "skipped", "sha256", "bound"}


def find_message(line: bytes) -> dict[str, Any] | None:
    """Parse a line as a message; None: other output (a library that prints)."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def find_progress(message: Mapping[str, Any]) -> StorageProgress | None:
    """The progress in a message; None: it is another message."""
    if message.get("event") != "progress":
        return None
    total = message.get("total_bytes")
    return StorageProgress(
        done_bytes=int(message.get("done_bytes") or 0),
        total_bytes=None if total is None else int(total),
        files=int(message.get("files") or 0),
    )


def outcome(final: Mapping[str, Any] | None, *, exit_code: int, output: Sequence[str]) -> StorageResult:
    """The job's result. Raises unless it reported ``done`` *and* exited with 0."""
    event = final.get("event") if final else None
    if final and event == "done" and exit_code == 0:
        return StorageResult(
            archive_key=str(final["archive_key"]),
            bytes=int(final["bytes"]),
            files=int(final["files"]),
            skipped=int(final.get("skipped") or 0),
            sha256=final.get("sha256"),
            bound=final.get("bound") is not False,
            extra={key: value for key, value in final.items() if key not in _RESULT_FIELDS},
        )
    if final and event == "failed":
        context = dict(final.get("context") or {})
        context.pop("code", None)
        context.setdefault("exit_code", exit_code)
        raise EffectError(_failure_code(final.get("code")), str(final.get("message") or "failed"), **context)
    raise EffectError(
        FailureCode.STORAGE_JOB_FAILED,
        f"the storage job ended with {exit_code} and no result",
        exit_code=exit_code,
        output=list(output),
    )


def _failure_code(value: object) -> FailureCode:
    try:
        return FailureCode(str(value))
    except ValueError:
        return FailureCode.STORAGE_JOB_FAILED
