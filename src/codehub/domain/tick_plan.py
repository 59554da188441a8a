"""Plan one tick of the Reconciler: rows in, transitions out. Pure.

``plan`` decides for one workspace; ``plan_tick`` decides for all rows of a tick and assigns the free slots.
A transition is a value: the store writes the first five kinds
(``store/workspaces/transitions``), the worker runs the rest.

Invariants: at most one transition per workspace. An operation begins only into a free slot of its lane, while
its backends answer and the last full observation is fresh, so waiting for any of these uses up no timeout.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never
from uuid import UUID

from codehub.domain import home
from codehub.domain.errors import EffectError, ErrorInfo
from codehub.domain.plan import (
    Act,
    Attempt,
    Claim,
    Complete,
    Crashed,
    Decision,
    Expire,
    Fail,
    Halt,
    Mark,
    Skip,
    SwitchArchive,
    Wait,
    plan,
)
from codehub.domain.policy import ErrorPolicy
from codehub.domain.states import STORAGE_OPERATIONS, HealthStatus, Operation
from codehub.domain.workspace import WorkspaceView


class Lane(StrEnum):
    """Operations that share slots. Waiting for a storage slot never delays a start."""

    CONTROL = "control"
    STORAGE = "storage"


def lane_of(operation: Operation) -> Lane:
    return Lane.STORAGE if operation in STORAGE_OPERATIONS else Lane.CONTROL


@dataclass(frozen=True)
class BeginOperation:
    """Claim the workspace for this operation and run its action. Compare-and-set."""

    workspace: WorkspaceView
    operation: Operation


@dataclass(frozen=True)
class CompleteOperation:
    """Complete the operation: its target was observed.

    ``after`` is the workspace at rest; its next operation begins at once.
    """

    workspace: WorkspaceView
    after: WorkspaceView
    next_operation: Operation | None = None


@dataclass(frozen=True)
class MarkHome:
    """Mark a whole home that is not marked, then go on as after a completion."""

    workspace: WorkspaceView
    after: WorkspaceView
    next_operation: Operation | None = None


@dataclass(frozen=True)
class SwitchHome:
    """Make the chosen archive the home, then go on as after a completion. Compare-and-set."""

    workspace: WorkspaceView
    after: WorkspaceView
    next_operation: Operation | None = None


@dataclass(frozen=True)
class HaltWorkspace:
    """Set a terminal error with no operation in flight: only a person recovers it."""

    workspace: WorkspaceView
    error: ErrorInfo


@dataclass(frozen=True)
class RunAction:
    """Run the action of the operation in flight (again), under the same op_id."""

    workspace: WorkspaceView


@dataclass(frozen=True)
class FailAction:
    """Fail one execution: its effect was never observed, or it hangs and is cancelled."""

    workspace: WorkspaceView
    failure: EffectError


@dataclass(frozen=True)
class ExpireAction:
    """Past its timeout: cancel the action, confirm it gone, then go terminal."""

    workspace: WorkspaceView
    error: ErrorInfo


@dataclass(frozen=True)
class RecordCrash:
    """Record a container that left RUNNING unasked: how it ended, and its last output."""

    workspace: WorkspaceView
    crash: Crashed


@dataclass(frozen=True)
class Unplannable:
    """Report a row whose planning raised, and skip it: one bad row stops no other."""

    workspace: WorkspaceView
    error: Exception


Written = BeginOperation | CompleteOperation | MarkHome | SwitchHome | HaltWorkspace
Executed = RunAction | FailAction | ExpireAction | RecordCrash
Transition = Written | Executed | Unplannable


@dataclass(frozen=True)
class Slots:
    """Slots for operations that may begin in this tick.

    ``free``: slots per lane. ``available``: operations whose backends answer. ``observed``: the last full
    observation is fresh; without it nothing is claimed and nothing times out.
    """

    free: Mapping[Lane, int]
    available: frozenset[Operation] = frozenset(Operation)
    observed: bool = True


@dataclass
class _SlotCount:
    """Counts slots taken in this tick, first come first served."""

    slots: Slots
    taken: Counter[Lane] = field(default_factory=Counter)

    def take(self, operation: Operation) -> bool:
        lane = lane_of(operation)
        if operation not in self.slots.available or self.taken[lane] >= self.slots.free.get(lane, 0):
            return False
        self.taken[lane] += 1
        return True


_NO_ATTEMPT = Attempt()


def plan_tick(
    rows: Sequence[WorkspaceView],
    *,
    now: datetime,
    policy: ErrorPolicy,
    slots: Slots,
    attempts: Mapping[UUID, Attempt] | None = None,
) -> Sequence[Transition]:
    """Plan the transitions of one tick, in the order of ``rows``.

    Slots go to actions that run again first, then to workspaces whose operation just completed (a person
    may wait for their remaining steps), then to new operations.
    """
    known = attempts or {}
    planned = [_plan_row(ws, known.get(ws.id, _NO_ATTEMPT), now=now, policy=policy) for ws in rows]
    count = _SlotCount(slots)
    admitted: dict[UUID, Transition] = {}
    for kinds in ((RunAction,), (CompleteOperation, MarkHome, SwitchHome), (BeginOperation,)):
        for transition in planned:
            if isinstance(transition, kinds) and (fits := _admit(transition, count)) is not None:
                admitted[fits.workspace.id] = fits
    for transition in planned:
        match transition:
            case ExpireAction() if not slots.observed:  # without a fresh observation nothing times out
                continue
            case FailAction() | ExpireAction() | RecordCrash() | HaltWorkspace() | Unplannable():
                admitted[transition.workspace.id] = transition
            case _:
                continue
    return [admitted[ws.id] for ws in rows if ws.id in admitted]


def _admit(transition: Transition, count: _SlotCount) -> Transition | None:
    """The transition as far as slots allow it; None: it waits for a later tick."""
    match transition:
        case RunAction():
            return transition if count.take(transition.workspace.operation) else None
        case BeginOperation():
            return transition if count.slots.observed and count.take(transition.operation) else None
        case CompleteOperation() | MarkHome() | SwitchHome():
            following = transition.next_operation
            if following is None or (count.slots.observed and count.take(following)):
                return transition
            return replace(transition, next_operation=None)
        case _:
            return transition


def _plan_row(
    ws: WorkspaceView, attempt: Attempt, *, now: datetime, policy: ErrorPolicy
) -> Transition | None:
    try:
        if ws.operation is Operation.NONE and attempt.acting:
            return None  # the action of an earlier operation has not ended yet
        decision = plan(ws, now=now, policy=policy, attempt=attempt)
        return _transition(ws, decision, attempt, now=now, policy=policy)
    except Exception as error:  # noqa: BLE001 - reported by the tick; the other rows go on
        return Unplannable(ws, error)


def _transition(
    ws: WorkspaceView, decision: Decision, attempt: Attempt, *, now: datetime, policy: ErrorPolicy
) -> Transition | None:
    match decision:
        case Skip() | Wait():
            return None
        case Claim(operation=operation):
            return BeginOperation(ws, operation)
        case Act():
            return RunAction(ws)
        case Complete():
            after = _at_rest(ws, now=now)
            return CompleteOperation(
                _as_acted(ws, attempt), after, _next_operation(after, attempt, now=now, policy=policy)
            )
        case Mark():
            after = replace(ws, home=home.marked(ws.home))
            return MarkHome(ws, after, _next_operation(after, attempt, now=now, policy=policy))
        case SwitchArchive(chosen=chosen):
            kept = home.at_switch(ws, chosen)
            after = replace(ws, archive_key=chosen.archive_key, home=kept, restore_from=None)
            return SwitchHome(ws, after, _next_operation(after, attempt, now=now, policy=policy))
        case Halt(error=error):
            return HaltWorkspace(ws, error)
        case Fail(failure=failure):
            return FailAction(_as_acted(ws, attempt), failure)
        case Expire(error=error):
            return ExpireAction(ws, error)
        case Crashed():
            return RecordCrash(ws, decision)
        case _:
            assert_never(decision)


def _as_acted(ws: WorkspaceView, attempt: Attempt) -> WorkspaceView:
    """The row with the end of its action, which only this leader knows until the completion writes it."""
    return ws if attempt.acted_at is None else replace(ws, op_acted_at=attempt.acted_at)


def _at_rest(ws: WorkspaceView, *, now: datetime) -> WorkspaceView:
    return replace(
        ws,
        operation=Operation.NONE,
        error_count=0,
        error_info=None,
        last_retry_at=None,
        home=home.at_completion(ws, now=now),
    )


def _next_operation(
    after: WorkspaceView, attempt: Attempt, *, now: datetime, policy: ErrorPolicy
) -> Operation | None:
    """The operation that follows a completion at once, without waiting for the next tick."""
    if after.health_status is not HealthStatus.OK or attempt.acting:
        return None
    decision = plan(after, now=now, policy=policy)
    return decision.operation if isinstance(decision, Claim) else None
