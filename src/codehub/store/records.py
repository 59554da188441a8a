"""Rows of ``workspaces`` as plain values.

The rules read a ``WorkspaceView``; people read a ``WorkspaceRecord``, which is the same plus what only
people care about. Both are made from one list of columns.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from codehub.domain.errors import ErrorInfo
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.tables import workspaces as w

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

AnyRow = Row[*tuple[Any, ...]]


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
    """From a row that begins with ``VIEW_COLUMNS``."""
    return WorkspaceView(
        id=row.id,
        owner_id=row.owner_id,
        desired_state=row.desired_state,
        observed_status=row.observed_status,
        health_status=row.health_status,
        operation=row.operation,
        last_access_at=row.last_access_at,
        image_ref=row.image_ref,
        observed_at=row.observed_at,
        op_id=row.op_id,
        op_seq=row.op_seq,
        op_started_at=row.op_started_at,
        op_acted_at=row.op_acted_at,
        archive_key=row.archive_key,
        error_count=row.error_count,
        error_info=ErrorInfo.from_json(row.error_info) if row.error_info is not None else None,
        last_retry_at=row.last_retry_at,
        previous_status=row.previous_status,
        home=HomeContext.from_json(row.home_ctx),
        standby_ttl_seconds=row.standby_ttl_seconds,
        archive_ttl_seconds=row.archive_ttl_seconds,
        awake_until=row.awake_until,
        active_until=row.active_until,
        deleted_at=row.deleted_at,
        version=row.version,
    )


def to_record(row: AnyRow) -> WorkspaceRecord:
    """From a row of ``RECORD_COLUMNS``."""
    return WorkspaceRecord(
        view=to_view(row),
        name=row.name,
        description=row.description,
        memo=row.memo,
        created_at=row.created_at,
        updated_at=row.updated_at,
        status=row.status,
    )
