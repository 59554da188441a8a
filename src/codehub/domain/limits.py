"""Count running places: who holds one, and whether one more is allowed.

The check is made in the transaction that sets the desired state RUNNING, under a lock: the numbers here are
exact, and two simultaneous starts can never both take the last place.
"""

from dataclasses import dataclass
from enum import StrEnum

from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView


class LimitKind(StrEnum):
    USER = "limit_user"
    GLOBAL = "limit_global"


@dataclass(frozen=True)
class RunningLimits:
    """How many workspaces may run at once, per person and in all."""

    per_user: int = 2
    in_all: int = 100


@dataclass(frozen=True)
class Usage:
    """Places used and allowed, of one limit."""

    used: int
    allowed: int

    @property
    def is_full(self) -> bool:
        return self.used >= self.allowed


def holds_place(ws: WorkspaceView) -> bool:
    """Whether the workspace holds a running place.

    It does while RUNNING is wanted, or while a container runs that could not be stopped.

    A workspace in error that does not run holds none: no step follows before a person recovers it, which
    takes a place again.

    A desired stop frees the place at once: the step follows within moments, and a person need not wait for
    it. In error no step follows, so a container that failed to stop keeps its place; so does one that
    another operation still holds.
    """
    if ws.deleted_at is None and ws.desired_state is DesiredState.RUNNING and not _is_broken_at_rest(ws):
        return True
    if ws.observed_status is not ObservedStatus.RUNNING:
        return False
    if ws.operation is Operation.NONE:
        return ws.deleted_at is None and ws.in_error
    return ws.operation not in (Operation.STOPPING, Operation.DELETING)


def _is_broken_at_rest(ws: WorkspaceView) -> bool:
    """In terminal error, with no operation and no container.

    ``health_status`` does not count: the Observer may set it back to OK, and no place would be taken then.
    """
    given_up = ws.error_info is not None and ws.error_info.is_terminal
    return given_up and ws.operation is Operation.NONE and ws.observed_status is not ObservedStatus.RUNNING


def exceeded(*, user: Usage, everyone: Usage) -> LimitKind | None:
    """Which limit forbids one more; None: neither.

    The person's own comes first, because they can do something about that one.
    """
    if user.is_full:
        return LimitKind.USER
    if everyone.is_full:
        return LimitKind.GLOBAL
    return None
