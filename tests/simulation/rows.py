"""A row of ``workspaces`` in the simulated database, and what PostgreSQL derives from it.

The plain columns are a ``WorkspaceView``; the derived ones are functions here, written a second time in
Python. ``test_database.py`` holds them to the generated columns of the real schema.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from codehub.domain.limits import holds_place
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.tick_plan import Lane
from codehub.domain.workspace import WorkspaceView
from codehub.store.workspaces.records import WorkspaceRecord

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
)


@dataclass(frozen=True)
class Row:
    view: WorkspaceView
    name: str
    created_at: datetime
    updated_at: datetime

    def changed(self, *, now: datetime, **columns: Any) -> "Row":
        """With these columns written; the version counts what people can see, as the trigger does."""
        after = replace(self.view, **columns)
        if any(getattr(self.view, name) != getattr(after, name) for name in VISIBLE if name in columns):
            return replace(self, view=replace(after, version=after.version + 1), updated_at=now)
        return replace(self, view=after)


def record(row: Row) -> WorkspaceRecord:
    return WorkspaceRecord(
        view=row.view,
        name=row.name,
        description="",
        memo="",
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
    if ws.operation is not Operation.NONE:
        return None
    if ws.deleted_at is not None:
        return Lane.CONTROL if ws.observed_status is not ObservedStatus.DELETED else None
    if ws.in_error:
        return None
    if ws.observed_status is ObservedStatus.PENDING:
        if ws.home.volume:
            return Lane.CONTROL
        if ws.desired_state is DesiredState.PENDING:
            return None
        return Lane.CONTROL if ws.archive_key is None else Lane.STORAGE
    if ws.observed_status is ObservedStatus.STANDBY:
        if not ws.volume_is_trusted:
            return Lane.STORAGE
        if not ws.home.volume:
            return Lane.CONTROL
        if ws.desired_state is DesiredState.STANDBY:
            return None
        return Lane.CONTROL if ws.desired_state is DesiredState.RUNNING else Lane.STORAGE
    if ws.observed_status is ObservedStatus.RUNNING:
        unmarked = ws.volume_is_trusted and not ws.home.volume
        return Lane.CONTROL if unmarked or ws.desired_state is not DesiredState.RUNNING else None
    return None


def due_since(ws: WorkspaceView) -> datetime:
    return ws.deleted_at or ws.last_retry_at or ws.last_access_at


def archive_due_at(ws: WorkspaceView) -> datetime | None:
    quiet = ws.deleted_at is None and not ws.in_error and ws.operation is Operation.NONE
    asleep = ws.desired_state is DesiredState.STANDBY and ws.observed_status is ObservedStatus.STANDBY
    if not (quiet and asleep and ws.archive_ttl_seconds > 0):
        return None
    at = ws.last_access_at + timedelta(seconds=ws.archive_ttl_seconds)
    return max(at, ws.awake_until) if ws.awake_until else at


def may_sleep(ws: WorkspaceView) -> bool:
    """``STANDBY_CANDIDATE``."""
    return (
        ws.desired_state is DesiredState.RUNNING
        and ws.observed_status is ObservedStatus.RUNNING
        and ws.health_status is HealthStatus.OK
        and ws.operation is Operation.NONE
        and ws.deleted_at is None
        and ws.standby_ttl_seconds > 0
    )


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
    if ws.observed_status is ObservedStatus.DELETED:
        return "deleted"
    if ws.deleted_at is not None:
        return "deleting"
    if ws.in_error:
        return "error"
    if ws.operation is not Operation.NONE:
        return ws.operation.value.lower()
    if ws.observed_status is not ObservedStatus.PENDING:
        return ws.observed_status.value.lower()
    return "archived" if ws.archive_key is not None else "new"


DERIVED = {
    "due_lane": due_lane,
    "due_since": due_since,
    "archive_due_at": archive_due_at,
    "holds_place": holds_place,
    "watched": watched,
    "status": status,
}
