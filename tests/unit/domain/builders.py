"""Workspaces for tests: every field has a plain default, a test names only what it is about."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.policy import ErrorPolicy
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
OP_ID = UUID("00000000-0000-4000-8000-00000000000a")
KEY = f"11111111-1111-4111-8111-111111111111/{OP_ID}/1/home.tar.zst"
POLICY = ErrorPolicy()


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def workspace(**fields: Any) -> WorkspaceView:
    """A healthy workspace at rest, wanted and seen STANDBY, marked, with the given columns changed."""
    base = WorkspaceView(
        id=UUID("11111111-1111-4111-8111-111111111111"),
        owner_id=UUID("22222222-2222-4222-8222-222222222222"),
        desired_state=DesiredState.STANDBY,
        observed_status=ObservedStatus.STANDBY,
        health_status=HealthStatus.OK,
        operation=Operation.NONE,
        last_access_at=NOW - minutes(1),
        observed_at=NOW - seconds(1),
        home=HomeContext(volume=True),
    )
    return replace(base, **fields)


def in_flight(operation: Operation, **fields: Any) -> WorkspaceView:
    """A workspace whose operation was claimed ten seconds ago; nobody has acted yet."""
    claimed: dict[str, Any] = {"op_id": OP_ID, "op_seq": 1, "op_started_at": NOW - seconds(10)}
    return workspace(operation=operation, **(claimed | fields))


def an_error(*, is_terminal: bool, **fields: Any) -> ErrorInfo:
    base = ErrorInfo(
        reason=Reason.ACTION_FAILED,
        message="it answered: failed",
        is_terminal=is_terminal,
        operation=Operation.STARTING,
        error_count=1,
        occurred_at=NOW - seconds(5),
    )
    return replace(base, **fields)


TRUSTED = HomeContext(restore_marker=KEY, volume=True)
