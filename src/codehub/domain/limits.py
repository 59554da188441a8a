"""Who holds a running place, and whether one more may be taken.

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
class Usage:
    used: int
    allowed: int

    @property
    def is_full(self) -> bool:
        return self.used >= self.allowed


def holds_place(ws: WorkspaceView) -> bool:
    """A place is held while RUNNING is wanted, or while a container runs on that resists its stop.

    What is broken and does not run holds none: nothing follows before a person recovers it, which takes a
    place anew.

    A desired stop frees the place at once: the step follows within moments, and making a person wait
    for it helps nobody. In error no step follows, so a container that failed to stop keeps its place;
    so does one that another operation still holds.
    """
    if ws.deleted_at is None and ws.desired_state is DesiredState.RUNNING and not _is_broken_at_rest(ws):
        return True
    if ws.observed_status is not ObservedStatus.RUNNING:
        return False
    if ws.operation is Operation.NONE:
        return ws.deleted_at is None and ws.in_error
    return ws.operation not in (Operation.STOPPING, Operation.DELETING)


def _is_broken_at_rest(ws: WorkspaceView) -> bool:
    """``health_status`` alone is not asked: the Observer may turn it back by itself, and nobody would take a
    place."""
    given_up = ws.error_info is not None and ws.error_info.is_terminal
    return given_up and ws.operation is Operation.NONE and ws.observed_status is not ObservedStatus.RUNNING


def exceeded(*, user: Usage, everyone: Usage) -> LimitKind | None:
    """Which limit forbids one more, the person's own first: that one they can do something about."""
    if user.is_full:
        return LimitKind.USER
    if everyone.is_full:
        return LimitKind.GLOBAL
    return None
