"""How ``home_ctx`` changes: at a claim, at the commit of an archive, at completion, at a failure.

``home_ctx`` is what lets the Reconciler tell a home from a directory that merely exists. Each function
gives the whole new value; the store writes it in the same statement as the change it belongs to, so no
crash can separate a claim from the trust it takes away.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from codehub.domain.errors import ErrorInfo, FailureCode, Reason
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView


def at_claim(ws: WorkspaceView, operation: Operation) -> HomeContext:
    match operation:
        case Operation.RESTORING:
            # The same archive may be restored twice: an old marker would vouch for a half-made volume.
            return replace(ws.home, restore_marker=None)
        case Operation.STARTING:
            # Still carrying ran_at here means it ran longer than the crash window: a clean slate.
            crashes = 0 if ws.home.ran_at else ws.home.crashes
            # Its person has the home again, and with it the chance to mend what archiving stumbled over.
            return replace(ws.home, ran_at=None, crashes=crashes, archive_failures=0, archive_retry_at=None)
        case Operation.STOPPING:
            return replace(ws.home, ran_at=None, crashes=0)
        case Operation.ARCHIVING:
            return replace(ws.home, archive_retry_at=None)
        case _:
            return ws.home


def is_unmarked(ws: WorkspaceView) -> bool:
    """Whether a whole home is there that no completion has marked.

    Two ways lead here: the operation that made the volume ended in an error, or a person accepted a loss
    and the disk came back before anybody had looked. Either way it is somebody's home, asleep or not.
    """
    there = ws.observed_status in (ObservedStatus.STANDBY, ObservedStatus.RUNNING)
    return there and ws.volume_is_trusted and not ws.home.volume


def marked(home: HomeContext) -> HomeContext:
    return replace(home, volume=True)


def at_archive_commit(
    home: HomeContext, *, archive_key: str, sha256: str | None, sizes: Mapping[str, int]
) -> HomeContext:
    """From here on the archive is the home; what is left of the volume is only rubbish to remove.

    The checksum goes into the row together with the key: no other archive can take its place.
    """
    return replace(
        home,
        volume=False,
        restore_marker=None,
        sizes=sizes,
        archived_key=archive_key,
        archive_sha256=sha256,
        archive_failures=0,
    )


def at_archiving_given_up(home: HomeContext, *, retry_at: datetime) -> HomeContext:
    return replace(home, archive_failures=home.archive_failures + 1, archive_retry_at=retry_at)


def at_restored(home: HomeContext, *, archive_key: str) -> HomeContext:
    return replace(home, restore_marker=archive_key)


def at_completion(ws: WorkspaceView, *, now: datetime) -> HomeContext:
    match ws.operation:
        case Operation.PROVISIONING | Operation.RESTORING:
            return marked(ws.home)  # from now on its absence is a loss
        case Operation.STARTING:
            return replace(ws.home, ran_at=now)
        case _:
            return ws.home


def at_failure(ws: WorkspaceView) -> HomeContext:
    """A failed execution runs again, and a restore that runs again makes a volume nobody vouches for yet.

    The marker is there if the restore itself had ended well and only its effect was never seen.
    """
    if ws.operation is Operation.RESTORING:
        return replace(ws.home, restore_marker=None)
    return ws.home


def at_crash(home: HomeContext, *, crashes: int) -> HomeContext:
    """``crashes``: in a row, this one included; 0 where it ran long and nobody knows how it ended."""
    return replace(home, ran_at=None, crashes=crashes)


def at_recovery(ws: WorkspaceView) -> HomeContext:
    """A person said "go on": crashes are forgiven, and a loss of the volume they were told of is accepted.

    Any other error leaves the mark. If the volume is gone all the same, the plan says so and asks: nobody
    accepts a loss by pressing on after a stop that failed.

    The Observer must have turned health already. Then the plan waits until it turns it back, which takes a
    new look, and a disk that is mounted again meanwhile is seen. With health still OK the plan would go on
    at once, from the old look, and restore an older home over the one that came back: the person who was
    that quick is asked once more.
    """
    accepted = (
        ws.observed_status is ObservedStatus.PENDING
        and ws.health_status is HealthStatus.ERROR
        and _was_told_of_loss(ws.error_info)
    )
    return replace(
        ws.home,
        volume=ws.home.volume and not accepted,
        ran_at=None,
        crashes=0,
        archive_failures=0,
        archive_retry_at=None,
    )


def volume_vanished(ws: WorkspaceView, *, now: datetime) -> ErrorInfo:
    """What a person is told when a completed home is gone although nobody removed it."""
    return ErrorInfo(
        reason=Reason.MISMATCH,
        message="The volume of this workspace is gone although nobody removed it. Is a disk not mounted?",
        is_terminal=True,
        operation=Operation.NONE,
        error_count=ws.error_count,
        occurred_at=now,
        context={
            "code": FailureCode.VOLUME_MISSING.value,
            "expected": "volume_exists=True",
            "actual": "False",
            "volume": f"ws-{ws.id}-home",
        },
    )


def _was_told_of_loss(error: ErrorInfo | None) -> bool:
    """Whether this error is ``volume_vanished``: an operation that met no volume names itself instead."""
    return (
        error is not None
        and error.operation is Operation.NONE
        and error.context.get("code") == FailureCode.VOLUME_MISSING
    )
