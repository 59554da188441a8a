"""Decide what a person who opens a workspace's address meets: it, a waiting page, an error.

The proxy's access policy is a table over ``Phase``. A workspace that is still running but is being stopped
counts as asleep: whoever opens it now wants it to run.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from codehub.domain.errors import FailureCode
from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.status import Status
from codehub.domain.workspace import WorkspaceView

STARTING_UP = timedelta(seconds=60)
"""How long after it came up a refused connection is no error yet."""


class Phase(StrEnum):
    """The API's ``status``, reduced to what the access policy distinguishes."""

    RUNNING = "running"
    ASLEEP = "asleep"  # standby, archived, new, stopping, archiving: RUNNING is not desired
    WAKING = "waking"  # provisioning, restoring, starting: RUNNING is desired
    ERROR = "error"


@dataclass(frozen=True)
class ErrorNote:
    """Reason and message of a workspace in ERROR, from ``error_info``."""

    reason: str
    message: str


class WakeResult(StrEnum):
    """How an attempt to wake a workspace ended."""

    WAKING = "waking"
    QUEUED = "queued"  # it waits for a running place, as its person asked
    LIMIT = "limit"
    ERROR = "error"
    GONE = "gone"


@dataclass(frozen=True)
class RunningWorkspace:
    """A running workspace, as listed on the page about the limit."""

    id: UUID
    name: str


@dataclass(frozen=True)
class WakeOutcome:
    """The result of a wake, with what its page shows."""

    result: WakeResult
    running: Sequence[RunningWorkspace] = ()  # LIMIT: this person's running workspaces
    allowed: int | None = None
    is_global: bool = False  # LIMIT: of the installation, so stopping an own workspace may not help
    error: ErrorNote | None = None


def phase_of(ws: WorkspaceView) -> Phase:
    """Reduce a workspace to its phase. First match wins, the most final case first."""
    if ws.in_error:
        return Phase.ERROR
    if ws.desired_state is not DesiredState.RUNNING:
        return Phase.ASLEEP
    return Phase.RUNNING if ws.observed_status is ObservedStatus.RUNNING else Phase.WAKING


def is_starting_up(ws: WorkspaceView) -> bool:
    """Whether its server may not listen yet, although the container runs."""
    if ws.operation is Operation.STARTING:
        return True
    if ws.home.ran_at is None or ws.observed_at is None:
        return ws.observed_status is ObservedStatus.RUNNING
    return ws.observed_at - ws.home.ran_at < STARTING_UP


def is_paused(view: WorkspaceView) -> bool:
    """Whether somebody paused the container: it runs, and answers no request."""
    error = view.error_info
    return error is not None and error.context.get("code") == FailureCode.CONTAINER_PAUSED.value


def error_note(ws: WorkspaceView) -> ErrorNote:
    """Say why a workspace is in ERROR."""
    if ws.error_info is None:
        return ErrorNote(Status.ERROR.value, "")
    return ErrorNote(ws.error_info.reason.value, ws.error_info.message)
