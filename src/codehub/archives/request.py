"""Parse a storage job's request: the one JSON object on its standard input.

Not command-line arguments: every user of the machine can read those, and ``storage_options`` may hold keys.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode

RETRY_DELAYS_SECONDS = (5.0, 12.0, 25.0)
"""Delays between the tries of one job while the store fails: three, 42 s in all."""


class Direction(StrEnum):
    """Which way a home is moved."""

    ARCHIVE = "archive"
    RESTORE = "restore"


class Swap(StrEnum):
    """How a restored home replaces the volume."""

    EXCHANGE = "exchange"  # by one atomic rename: the volume is a plain directory
    INSIDE = "inside"  # entry by entry: the volume is a mount point, which cannot be renamed


@dataclass(frozen=True)
class JobRequest:
    """One archive or one restore."""

    kind: Direction
    workspace_id: UUID
    op_id: UUID
    archive_url: str
    volume_path: Path
    installation_id: str  # archive: written into the meta; restore: the meta must name it
    staging_dir: Path | None = None  # restore by exchange: on the volume's file system, for this job alone
    archive_key: str | None = None  # restore: what to unpack; archive: what the volume was restored from
    archive_sha256: str | None = (
        None  # of archive_key, as committed in the database; None: by an older release
    )
    archive_source_id: UUID | None = (
        None  # the workspace of archive_key, where it is another: a copy's first home
    )
    format_version: int = 1  # archive: which format to write
    swap: Swap = Swap.EXCHANGE
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    retry_delays: tuple[float, ...] = RETRY_DELAYS_SECONDS


def parse_request(raw: bytes) -> JobRequest:
    """Parse a request. Raises ``STORAGE_JOB_FAILED`` with the reason.

    A malformed request is a defect of the caller.
    """
    try:
        document = json.loads(raw)
        request = JobRequest(
            kind=Direction(document["kind"]),
            workspace_id=UUID(document["workspace_id"]),
            op_id=UUID(document["op_id"]),
            installation_id=str(document["installation_id"]),
            archive_url=str(document["archive_url"]),
            volume_path=Path(document["volume_path"]),
            staging_dir=Path(document["staging_dir"]) if document.get("staging_dir") else None,
            archive_key=document.get("archive_key"),
            archive_sha256=document.get("archive_sha256"),
            archive_source_id=UUID(source) if (source := document.get("archive_source_id")) else None,
            format_version=_format_version(document.get("format_version", 1)),
            swap=Swap(document.get("swap", Swap.EXCHANGE)),
            storage_options=dict(document.get("storage_options") or {}),
            retry_delays=tuple(float(each) for each in document.get("retry_delays", RETRY_DELAYS_SECONDS)),
        )
    except KeyError as error:
        raise _malformed(f"{error} is missing") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise _malformed(str(error)) from error
    _require_restore_fields(request)
    return request


def _format_version(value: object) -> int:
    if value not in (1, 2):
        raise ValueError(f"there is no format {value!r}")
    return int(str(value))


def _require_restore_fields(request: JobRequest) -> None:
    if request.kind is not Direction.RESTORE:
        return
    if not request.archive_key:
        raise _malformed("a restore needs archive_key")
    if request.swap is Swap.EXCHANGE and request.staging_dir is None:
        raise _malformed("a restore needs staging_dir")


def _malformed(why: str) -> EffectError:
    return EffectError(FailureCode.STORAGE_JOB_FAILED, f"The storage job got a malformed request: {why}.")
