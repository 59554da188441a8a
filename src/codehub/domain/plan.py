"""Plan the single next step for a workspace. Pure and level-triggered.

The Reconciler loads rows, calls ``plan`` for each, and performs the decision. ``plan`` reads the current
state only. It never learns how the state came about, so losing every event changes nothing.

The order of the cases is itself a rule: an operation in flight comes before anything else (two overlapping
steps corrupt a volume), deletion before an error (the owner's decision is final),
an error before convergence (only a person lifts it), a chosen archive before trust and progress (the present home is
archived, then the chosen one is switched to), trust before progress (a half-restored home is never started and never
archived), a snapshot before any other step of a sleeping home.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from codehub.domain import completion, home
from codehub.domain.endings import Ending, crash_words
from codehub.domain.errors import EffectError, ErrorInfo, FailureCode, Reason
from codehub.domain.generations import ChosenArchive
from codehub.domain.policy import ErrorPolicy, retries_exceeded, retry_at, timed_out
from codehub.domain.states import LEVEL, DesiredState, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView


@dataclass(frozen=True)
class Attempt:
    """This leader's own execution of the operation in flight, as far as it has one.

    A leader that just took over has none (the default): the operation is then adopted, and its timeout
    is not applied before this leader has tried itself.
    """

    acting: bool = False
    started_at: datetime | None = None  # of the current or last own attempt; None: never tried
    ended_at: datetime | None = None
    progress_at: datetime | None = None
    acted_at: datetime | None = None  # by the database's clock; None: not ended, or its end is in the row
    timeout_counts_from: datetime | None = None  # waiting for an engine that was away uses up no timeout


class ActKind(StrEnum):
    ADOPT = "adopt"
    RETRY = "retry"


@dataclass(frozen=True)
class Skip:
    """Do nothing in this state."""

    reason: str


@dataclass(frozen=True)
class Claim:
    """Claim the workspace for this operation. Compare-and-set."""

    operation: Operation


@dataclass(frozen=True)
class Act:
    """Run the action of the operation in flight (again), under the same op_id."""

    kind: ActKind


@dataclass(frozen=True)
class Wait:
    """Do nothing yet: something expected has not happened."""

    reason: str


@dataclass(frozen=True)
class Complete:
    """Complete the operation: its target was observed after the action ended."""


@dataclass(frozen=True)
class Fail:
    """Count one failed execution; ``policy.after_failure`` decides about a retry."""

    failure: EffectError


@dataclass(frozen=True)
class Expire:
    """Past its timeout: cancel the action, confirm it gone, then go terminal."""

    error: ErrorInfo


@dataclass(frozen=True)
class Halt:
    """Set a terminal error at rest: no operation begins until a person recovers."""

    error: ErrorInfo


@dataclass(frozen=True)
class Mark:
    """Mark a whole home that is not marked: from now on its absence is a loss."""


@dataclass(frozen=True)
class SwitchArchive:
    """Make the chosen archive the home: no volume counts, so nothing that is not archived is left behind."""

    chosen: ChosenArchive


@dataclass(frozen=True)
class Crashed:
    """Record that the container left RUNNING unasked, before it is started again.

    ``soon``: within the crash window, which counts as a failed execution of STARTING. After the window the
    crash is only recorded, if the engine knows how it ended, and the container started again at once.
    """

    crashes: int
    ran_for: timedelta
    soon: bool = True


Decision = Skip | Claim | Act | Wait | Complete | Fail | Expire | Halt | Mark | SwitchArchive | Crashed

_IDLE = Attempt()


def plan(ws: WorkspaceView, *, now: datetime, policy: ErrorPolicy, attempt: Attempt = _IDLE) -> Decision:
    """Plan the single next step for a workspace. Pure."""
    if ws.operation is not Operation.NONE:  # one step at a time: overlapping steps corrupt volumes
        return _plan_in_flight(ws, now=now, policy=policy, attempt=attempt)
    if ws.deleted_at is not None:  # deletion goes before everything else, ERROR included
        return _plan_deletion(ws)
    if ws.in_error:
        return Skip("terminal error: only a person lifts it")
    if ws.observed_status is ObservedStatus.DELETED:  # unreachable: nothing leaves DELETED
        return Skip("deleted")
    if ws.observed_status is ObservedStatus.PENDING and ws.home.volume:
        return Halt(home.volume_vanished(ws, now=now))
    if ws.restore_from is not None:
        return _plan_return(ws, ws.restore_from)
    if ws.observed_status is ObservedStatus.STANDBY and not ws.volume_is_trusted:
        return _plan_untrusted(ws, now=now)
    if home.is_unmarked(ws):  # before any step, and also where no step is due
        return Mark()
    if ws.is_due_for_snapshot:  # before a start: the home as it was when its person asked
        return Claim(Operation.ARCHIVING)
    if ws.observed_status.value == ws.desired_state.value:
        return Skip("converged")
    return _plan_step(ws, now=now, policy=policy)


def _plan_deletion(ws: WorkspaceView) -> Decision:
    if ws.observed_status is ObservedStatus.DELETED:
        return Skip("deleted")
    return Claim(Operation.DELETING)


def _plan_return(ws: WorkspaceView, chosen: ChosenArchive) -> Decision:
    """Stop, archive the present home, then switch: whatever the desired state is, which is met afterwards.

    The pause after an archiving that was given up does not apply: a person asks for this one.
    """
    if ws.observed_status is ObservedStatus.RUNNING:
        return Claim(Operation.STOPPING)
    if ws.observed_status is ObservedStatus.STANDBY and ws.volume_is_trusted:
        return Mark() if home.is_unmarked(ws) else Claim(Operation.ARCHIVING)
    return SwitchArchive(chosen)


def _plan_untrusted(ws: WorkspaceView, *, now: datetime) -> Decision:
    """Restore or delete a volume that is not trusted: the archive is the home, the volume is never used."""
    if ws.desired_state is DesiredState.PENDING:
        return _plan_archiving(ws, now=now)  # uploads nothing: it only deletes the volume
    return Claim(Operation.RESTORING)


def _plan_step(ws: WorkspaceView, *, now: datetime, policy: ErrorPolicy) -> Decision:
    """One step towards the desired state: to a neighbouring state, never further."""
    if LEVEL[ws.desired_state.value] < LEVEL[ws.observed_status.value]:
        if ws.observed_status is ObservedStatus.RUNNING:
            return Claim(Operation.STOPPING)
        return _plan_archiving(ws, now=now)
    if ws.observed_status is ObservedStatus.PENDING:
        return Claim(Operation.PROVISIONING if ws.archive_key is None else Operation.RESTORING)
    return _plan_start(ws, now=now, policy=policy)


def _plan_archiving(ws: WorkspaceView, *, now: datetime) -> Decision:
    """STANDBY → PENDING, unless archiving was given up and its pause is not over.

    A recovery or a start ends the pause.
    """
    if ws.home.archive_retry_at is not None and now < ws.home.archive_retry_at:
        return Wait("archiving was given up for a while")
    return Claim(Operation.ARCHIVING)


def _plan_start(ws: WorkspaceView, *, now: datetime, policy: ErrorPolicy) -> Decision:
    """STANDBY → RUNNING, unless the container left RUNNING unasked and that is not recorded yet."""
    ran_at, seen_at = ws.home.ran_at, ws.observed_at
    if ran_at is not None and seen_at is not None:
        ran_for = seen_at - ran_at
        soon = ran_for <= policy.crash_window
        return Crashed(crashes=ws.home.crashes + 1 if soon else 1, ran_for=ran_for, soon=soon)
    due = retry_at(ws, policy=policy)
    if due is not None and now < due:
        return Wait("back-off after a crash")
    return Claim(Operation.STARTING)


def crash_error(
    crash: Crashed, ending: Ending, *, log_tail: str, now: datetime, policy: ErrorPolicy
) -> ErrorInfo:
    """The error of a crash, with its last output; terminal once retries are used up."""
    error = ErrorInfo(
        reason=Reason.ACTION_FAILED,
        message=crash_words(ending, ran_for=crash.ran_for, soon=crash.soon),
        is_terminal=False,
        operation=Operation.STARTING,
        error_count=crash.crashes,
        occurred_at=now,
        context={"action": "start", **ending.context, "log": log_tail},
    )
    if error.error_count > policy.max_retries:
        return retries_exceeded(error, policy=policy)
    return error


def _plan_in_flight(ws: WorkspaceView, *, now: datetime, policy: ErrorPolicy, attempt: Attempt) -> Decision:
    if attempt.acting:
        elapsed = now - _timeout_start(attempt.started_at, attempt)
        if elapsed > policy.timeouts[ws.operation]:
            return _plan_expired(ws, elapsed=elapsed, now=now)
        return Wait("acting")
    if attempt.acted_at is not None:  # only this leader knows it until the completion writes it
        ws = replace(ws, op_acted_at=attempt.acted_at)
    if ws.op_acted_at is not None:
        return _plan_effect(ws, now=now, policy=policy, acted_at=ws.op_acted_at)
    if _is_expired(ws, now=now, policy=policy, attempt=attempt):
        return _plan_expired(ws, elapsed=now - _timeout_start(ws.op_started_at, attempt), now=now)
    due = retry_at(ws, policy=policy)
    if due is not None and now < due:
        return Wait("back-off before a retry")
    return Act(ActKind.RETRY if ws.error_count else ActKind.ADOPT)


def _plan_effect(ws: WorkspaceView, *, now: datetime, policy: ErrorPolicy, acted_at: datetime) -> Decision:
    """The action ended: decide by an observation begun after that whether its effect is there."""
    if ws.observed_at is None or ws.observed_at <= acted_at:
        return Wait("observation")
    if completion.is_complete(ws):
        return Complete()
    if ws.observed_at - acted_at < policy.mismatch_after:
        return Wait("the effect to show")
    target = completion.target_of(ws)
    return Fail(
        EffectError(
            FailureCode.EFFECT_NOT_SEEN,
            f"{ws.operation.value} reported success, but {target.value} was not observed.",
            expected=f"observed_status={target.value}",
            actual=ws.observed_status.value,
        )
    )


def _is_expired(ws: WorkspaceView, *, now: datetime, policy: ErrorPolicy, attempt: Attempt) -> bool:
    """Whether the operation is past its timeout, after this leader's own attempt and a later observation.

    Without that condition, a leader that takes over after a long outage would fail what it could finish.
    DELETING does not expire between attempts: only another attempt can ever end it.
    """
    if ws.operation is Operation.DELETING:
        return False
    if attempt.ended_at is None or ws.observed_at is None or ws.observed_at <= attempt.ended_at:
        return False
    return now - _timeout_start(ws.op_started_at, attempt) > policy.timeouts[ws.operation]


def _plan_expired(ws: WorkspaceView, *, elapsed: timedelta, now: datetime) -> Decision:
    if ws.operation is Operation.DELETING:  # never terminal
        return Fail(
            EffectError(
                FailureCode.DELETION_SLOW,
                "Deleting takes longer than its limit; it is tried again.",
                elapsed_seconds=int(elapsed.total_seconds()),
            )
        )
    return Expire(timed_out(ws, elapsed=elapsed, now=now))


def _timeout_start(start: datetime | None, attempt: Attempt) -> datetime:
    """When the timeout counts from: the latest of start, last progress and the end of an engine's outage."""
    moments = [start, attempt.progress_at, attempt.timeout_counts_from]
    known = [moment for moment in moments if moment is not None]
    assert known, "an operation in flight has op_started_at"
    return max(known)
