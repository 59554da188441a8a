"""Convert rows of ``workspaces`` to plain values.

The domain rules read a ``WorkspaceView``; the API returns a ``WorkspaceRecord``, which adds the columns only
people need. Both are made from one list of columns.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from codehub.domain.errors import ErrorInfo
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.schema.tables import workspaces as w

VIEW_COLUMNS = (
    w.c.id,
    w.c.owner_id,
    w.c.desired_state,
    w.c.observed_status,
    w.c.health_status,
    w.c.operation,
    w.c.last_access_at,
    w.c.image_ref,
    w.c.observed_at,
    w.c.op_id,
    w.c.op_seq,
    w.c.op_started_at,
    w.c.op_acted_at,
    w.c.archive_key,
    w.c.error_count,
    w.c.error_info,
    w.c.last_retry_at,
    w.c.previous_status,
    w.c.home_ctx,
    w.c.standby_ttl_seconds,
    w.c.archive_ttl_seconds,
    w.c.awake_until,
    w.c.active_until,
    w.c.deleted_at,
    w.c.version,
)
RECORD_COLUMNS = (
    *VIEW_COLUMNS,
    w.c.name,
    w.c.description,
    w.c.memo,
    w.c.created_at,
    w.c.updated_at,
    w.c.status,
)

# ``to_view`` reads by position: ``WorkspaceView`` has its fields in the order of the columns.
_VIEW_WIDTH = len(VIEW_COLUMNS)
_NAMES = [column.name for column in VIEW_COLUMNS]
_ERROR_INFO, _HOME_CTX = _NAMES.index("error_info"), _NAMES.index("home_ctx")

_NO_HOME = HomeContext()

AnyRow = Any  # a tuple whose fields have names


@dataclass(frozen=True)
class WorkspaceRecord:
    """A workspace as people see it. ``status`` is the one word for all its axes."""

    view: WorkspaceView
    name: str
    description: str
    memo: str
    created_at: datetime
    updated_at: datetime
    status: str


def to_view(row: AnyRow) -> WorkspaceView:
    """Convert a row that begins with ``VIEW_COLUMNS``.

    By position: access by name costs three times more.
    """
    values: tuple[Any, ...] = row[:_VIEW_WIDTH]
    error_info, home_ctx = values[_ERROR_INFO], values[_HOME_CTX]
    return WorkspaceView(  # type: ignore[call-arg]  # mypy cannot count slices
        *values[:_ERROR_INFO],
        ErrorInfo.from_json(error_info) if error_info is not None else None,
        *values[_ERROR_INFO + 1 : _HOME_CTX],
        HomeContext.from_json(home_ctx) if home_ctx else _NO_HOME,
        *values[_HOME_CTX + 1 :],
    )


def to_record(row: AnyRow) -> WorkspaceRecord:
    """Convert a row of ``RECORD_COLUMNS``."""
    return WorkspaceRecord(to_view(row), *row[_VIEW_WIDTH:])
