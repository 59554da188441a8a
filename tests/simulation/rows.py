"""A row of ``workspaces`` in the simulated database, and what PostgreSQL derives from it.

The plain columns are a ``WorkspaceView``. The derived ones are asked of the domain; ``watched`` and
``not_final``, which only the Observer's statements say, are written here. ``test_database.py`` holds all of them
to the generated columns of the real schema.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from codehub.domain import ttl
from codehub.domain.limits import holds_place
from codehub.domain.plan import Claim, Crashed, Halt, Mark, SwitchArchive, plan
from codehub.domain.policy import ErrorPolicy
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.status import status_of
from codehub.domain.tick_plan import Lane, lane_of
from codehub.domain.workspace import WorkspaceView
from codehub.store.workspaces.records import WorkspaceRecord

POLICY = ErrorPolicy()

VISIBLE = (
    "desired_state",
    "observed_status",
    "health_status",
    "operation",
    "error_info",
    "archive_key",
    "deleted_at",
    "image_ref",
    "standby_ttl_seconds",
    "archive_ttl_seconds",
    "awake_until",
    "restore_from",
    "snapshot_as",
    "snapshots",
    "queued_at",
)

OWN = ("name", "description", "memo", "tags", "pinned")
"""Visible too; no rule reads them, so they are not in a view."""


@dataclass(frozen=True)
class Row:
    view: WorkspaceView
    name: str
    created_at: datetime
    updated_at: datetime
    description: str = ""
    memo: str = ""
    tags: list[str] = field(default_factory=list)
    pinned: bool = False

    def changed(self, *, now: datetime, **columns: Any) -> "Row":
        """With these columns written; the version counts what people can see, as the trigger does."""
        own = {name: columns.pop(name) for name in OWN if name in columns}
        after = replace(self.view, **columns)
        visible = any(getattr(self.view, name) != getattr(after, name) for name in VISIBLE if name in columns)
        if visible or any(getattr(self, name) != value for name, value in own.items()):
            after = replace(after, version=after.version + 1)
            return replace(self, view=after, updated_at=now, **own)
        return replace(self, view=after)


def record(row: Row) -> WorkspaceRecord:
    return WorkspaceRecord(
        view=row.view,
        name=row.name,
        description=row.description,
        memo=row.memo,
        tags=row.tags,
        pinned=row.pinned,
        created_at=row.created_at,
        updated_at=row.updated_at,
        status=status(row.view),
    )


def notice(before: Row | None, after: Row) -> str:
    """What the trigger tells NOTIFY."""
    changed = [
        name for name in VISIBLE if before is None or getattr(before.view, name) != getattr(after.view, name)
    ]
    view = after.view
    return json.dumps(
        {"id": str(view.id), "owner_id": str(view.owner_id), "version": view.version, "changed": changed}
    )


def is_terminal(ws: WorkspaceView) -> bool:
    return ws.error_info is not None and ws.error_info.is_terminal


def due_lane(ws: WorkspaceView) -> Lane | None:
    """The lane of the step that ``plan`` gives this row, pauses aside: those are asked for beside the column."""
    if ws.operation is not Operation.NONE:
        return None
    if ws.last_retry_at or ws.home.crashes or ws.home.archive_retry_at:
        ws = replace(ws, last_retry_at=None, home=replace(ws.home, crashes=0, archive_retry_at=None))
    match plan(ws, now=ws.last_access_at, policy=POLICY):
        case Claim(operation=operation):
            return lane_of(operation)
        case Halt() | Mark() | SwitchArchive() | Crashed():
            return Lane.CONTROL
        case _:
            return None


def due_since(ws: WorkspaceView) -> datetime:
    return ws.deleted_at or ws.last_retry_at or ws.last_access_at


def archive_due_at(ws: WorkspaceView) -> datetime | None:
    """As ``domain/ttl`` says. The column does not wait for the Observer to set health after a terminal error."""
    return None if ws.in_error else ttl.archive_due_at(ws)


def watched(ws: WorkspaceView) -> bool:
    if ws.operation is not Operation.NONE:
        return True
    if ws.observed_status is ObservedStatus.DELETED:
        return False
    return (
        ws.observed_status is not ObservedStatus.PENDING
        or ws.health_status is not HealthStatus.OK
        or ws.error_info is not None
        or ws.deleted_at is not None
        or ws.observed_at is None
    )


def not_final(ws: WorkspaceView) -> bool:
    return ws.observed_status is not ObservedStatus.DELETED or ws.operation is not Operation.NONE


def status(ws: WorkspaceView) -> str:
    return status_of(ws).value


DERIVED = {
    "due_lane": due_lane,
    "due_since": due_since,
    "archive_due_at": archive_due_at,
    "holds_place": holds_place,
    "watched": watched,
    "status": status,
}
