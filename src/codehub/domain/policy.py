"""Error policy: timeouts, retries, back-off and what a failure leads to. Pure.

``error_count`` counts consecutive failed executions of one operation. A failed execution is retried
with the same ``op_id`` after a pause; the one after the last retry is terminal, and only a person lifts
that. Deleting never gives up: the owner has decided, and nothing is left to ask. Archiving gives up for a
while: the home is whole and can be started, and its owner is shown what prevents the archive.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from codehub.domain.errors import EffectError, ErrorInfo, FailureCode, Reason
from codehub.domain.states import Operation
from codehub.domain.workspace import WorkspaceView

_FIVE_MINUTES = timedelta(minutes=5)
_HALF_AN_HOUR = timedelta(minutes=30)


def _default_timeouts() -> dict[Operation, timedelta]:
    return {
        Operation.PROVISIONING: _FIVE_MINUTES,
        Operation.STARTING: _FIVE_MINUTES,
        Operation.STOPPING: _FIVE_MINUTES,
        Operation.DELETING: _FIVE_MINUTES,
        Operation.RESTORING: _HALF_AN_HOUR,  # since the last progress
        Operation.ARCHIVING: _HALF_AN_HOUR,  # since the last progress
    }


@dataclass(frozen=True)
class ErrorPolicy:
    """Numbers of the error policy.

    ``timeouts``: how long an operation may take, or stand still.
    """

    max_retries: int = 3
    retry_backoff: timedelta = timedelta(seconds=30)
    jitter: float = 0.3
    deleting_backoff_max: timedelta = timedelta(minutes=10)
    archive_backoff: timedelta = timedelta(hours=1)
    archive_backoff_max: timedelta = timedelta(hours=24)
    mismatch_after: timedelta = timedelta(seconds=10)
    crash_window: timedelta = timedelta(seconds=60)
    observer_stale_after: timedelta = timedelta(seconds=30)
    timeouts: dict[Operation, timedelta] = field(default_factory=_default_timeouts)


@dataclass(frozen=True)
class Retry:
    """Count the failure; the same action runs again after the pause."""

    error: ErrorInfo


@dataclass(frozen=True)
class GiveUp:
    """Go terminal: operation NONE, error kept until a person recovers."""

    error: ErrorInfo


@dataclass(frozen=True)
class Release:
    """Give up archiving until ``retry_at``: operation NONE, error kept, not terminal.

    The workspace can be started meanwhile.
    """

    error: ErrorInfo
    retry_at: datetime


@dataclass(frozen=True)
class Drop:
    """Drop the result and count nothing: the runtime has seen a newer token.

    ``highest_op_seq``: of the newest token seen. For a leader that was replaced it means nothing: its
    writes are fenced. For the leader of the current term it means that the database is older than the
    runtime (a backup was restored), and the sequence has to catch up.
    """

    highest_op_seq: int | None = None


Consequence = Retry | GiveUp | Release | Drop

TERMINAL_AT_ONCE = frozenset(
    {FailureCode.ARCHIVE_UNEXPECTED, FailureCode.VOLUME_USED_ELSEWHERE, FailureCode.NAME_TAKEN}
)
"""Terminal without a retry, beside DataLost.

Going on would create an empty home where a full one exists, or use a home together with a container CodeHub
does not know, or touch what belongs to somebody else. Only a person can decide that, and a retry changes
nothing."""

WAITED_LONG_ENOUGH = frozenset({FailureCode.UNSCHEDULABLE, FailureCode.HOME_NODE_UNAVAILABLE})
"""Given up without a retry: it has waited for as long as its setting allows, and a retry would be the same wait."""

FOR_THE_OWNER = frozenset({FailureCode.HOME_NOT_ARCHIVABLE})
"""Give up archiving without a retry: the owner must change the home, and cannot while it is being archived."""


def after_failure(
    ws: WorkspaceView, failure: EffectError, *, now: datetime, policy: ErrorPolicy
) -> Consequence:
    """Decide what follows from one failed execution of the operation in flight."""
    if failure.failure is FailureCode.STALE_TOKEN:
        highest = failure.context.get("highest")
        return Drop(highest_op_seq=highest[0] if highest else None)
    count = ws.error_count + 1
    error = ErrorInfo(
        reason=failure.reason,
        message=failure.message,
        is_terminal=False,
        operation=ws.operation,
        error_count=count,
        occurred_at=now,
        context=failure.context,
    )
    if ws.operation is Operation.DELETING:  # never terminal: it is retried with back-off
        return Retry(error)
    if failure.reason is Reason.DATA_LOST or failure.failure in TERMINAL_AT_ONCE:
        return GiveUp(replace(error, is_terminal=True))
    if ws.operation is Operation.ARCHIVING:
        at_once = failure.failure in FOR_THE_OWNER | WAITED_LONG_ENOUGH
        given_up = at_once or count > policy.max_retries
        return release_archiving(ws, error, now=now, policy=policy) if given_up else Retry(error)
    if failure.failure in WAITED_LONG_ENOUGH:
        return GiveUp(replace(error, is_terminal=True))
    if count > policy.max_retries:
        return GiveUp(retries_exceeded(error, policy=policy))
    return Retry(error)


def release_archiving(ws: WorkspaceView, last: ErrorInfo, *, now: datetime, policy: ErrorPolicy) -> Release:
    """Give up archiving for a while, each time twice as long.

    The longest pause is ``archive_backoff_max``. Never terminal: a TTL may have asked for it, and a
    TTL must not take a home away from its owner.
    """
    pause = policy.archive_backoff * 2 ** min(ws.home.archive_failures, 20)
    retry_at = now + min(pause, policy.archive_backoff_max)
    where = (
        "The home could not be archived and stays as it is"
        if ws.volume_is_trusted
        else "The home is in its archive, but its volume could not be removed"
    )
    if ws.return_waits_for_archive:
        where += ", and returning to the earlier archive was given up"
    if ws.snapshot_as is not None and ws.volume_is_trusted:
        where += ", and the snapshot was given up"
    return Release(
        replace(
            last,
            message=f"{where}. {last.message}",
            is_terminal=False,
            context={**last.context, "next_try_at": retry_at.isoformat()},
        ),
        retry_at,
    )


def retries_exceeded(last: ErrorInfo, *, policy: ErrorPolicy) -> ErrorInfo:
    """The terminal error after the last retry."""
    return ErrorInfo(
        reason=Reason.RETRY_EXCEEDED,
        message=f"Gave up after {policy.max_retries} retries. Last error: {last.message}",
        is_terminal=True,
        operation=last.operation,
        error_count=last.error_count,
        occurred_at=last.occurred_at,
        context={
            **last.context,
            "max_retries": policy.max_retries,
            "last_reason": last.reason.value,
            "last_error": last.message,
        },
    )


def timed_out(ws: WorkspaceView, *, elapsed: timedelta, now: datetime) -> ErrorInfo:
    """The terminal error of an operation past its timeout."""
    seconds = int(elapsed.total_seconds())
    return ErrorInfo(
        reason=Reason.TIMEOUT,
        message=f"{ws.operation.value} was not done within its limit ({seconds} s).",
        is_terminal=True,
        operation=ws.operation,
        error_count=ws.error_count,
        occurred_at=now,
        context={"operation": ws.operation.value, "elapsed_seconds": seconds},
    )


def retry_at(ws: WorkspaceView, *, policy: ErrorPolicy) -> datetime | None:
    """When the operation in flight (or a crashed start) may be retried; None: now."""
    failures = ws.error_count if ws.operation is not Operation.NONE else ws.home.crashes
    if failures == 0 or ws.last_retry_at is None:
        return None
    pause = policy.retry_backoff
    if ws.operation is Operation.DELETING:
        pause = min(pause * 2 ** min(failures - 1, 20), policy.deleting_backoff_max)
    return ws.last_retry_at + pause * _jitter(ws.op_id, failures, spread=policy.jitter)


def _jitter(op_id: UUID | None, count: int, *, spread: float) -> float:
    """A factor around 1. Deterministic: the same on every replica for the same failure."""
    seed = (op_id.int if op_id else 0) + count * 2654435761
    return 1 - spread + 2 * spread * ((seed % 1009) / 1008)
