"""Compute the new ``home_ctx`` at a claim, archive commit, completion or failure.

By ``home_ctx`` the Reconciler tells a home from a directory that merely exists. Each function returns the
whole new value; the store writes it in the same statement as the change it belongs to, so no crash can
separate a claim from the trust it removes.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from codehub.domain import generations
from codehub.domain.errors import ErrorInfo, FailureCode, Reason
from codehub.domain.generations import ChosenArchive, Generation, Generations
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView


def at_claim(ws: WorkspaceView, operation: Operation) -> HomeContext:
    """``home_ctx`` when ``operation`` is claimed.

    Whether the volume outlives an archiving is decided here and stays so: a later intent does not change it.
    """
    keeps_volume = operation is Operation.ARCHIVING and ws.is_due_for_snapshot
    return replace(_at_claim(ws, operation), keeps_volume=keeps_volume)


def _at_claim(ws: WorkspaceView, operation: Operation) -> HomeContext:
    match operation:
        case Operation.RESTORING:
            # The same archive may be restored twice: an old marker would make a half-restored volume trusted.
            return replace(ws.home, restore_marker=None)
        case Operation.STARTING:
            # ran_at still set means that it ran longer than the crash window: the count starts again.
            crashes = 0 if ws.home.ran_at else ws.home.crashes
            # Its owner can use the home again, and so remove what archiving failed on.
            return replace(ws.home, ran_at=None, crashes=crashes, archive_failures=0, archive_retry_at=None)
        case Operation.STOPPING:
            return replace(ws.home, ran_at=None, crashes=0)
        case Operation.ARCHIVING | Operation.DELETING:  # the promised try is this one, or none is needed
            return replace(ws.home, archive_retry_at=None)
        case _:
            return ws.home


def is_unmarked(ws: WorkspaceView) -> bool:
    """Whether a whole home exists that no completion has marked.

    Two cases: the operation that made the volume ended in an error, or a person accepted a loss and the disk
    came back before the next observation. In both it is somebody's home, running or not.
    """
    exists = ws.observed_status in (ObservedStatus.STANDBY, ObservedStatus.RUNNING)
    return exists and ws.volume_is_trusted and not ws.home.volume


def marked(home: HomeContext) -> HomeContext:
    """Mark the home as complete: from now on its absence is a loss."""
    return replace(home, volume=True)


def at_archive_commit(
    home: HomeContext,
    *,
    archive_key: str,
    sha256: str | None,
    sizes: Mapping[str, int],
    now: datetime | None = None,
) -> HomeContext:
    """``home_ctx`` when an archive is committed.

    From then on the archive is the home, and the volume is only to be removed. The checksum is written
    together with the key: no other archive can be restored in its place.
    """
    return replace(
        home,
        volume=False,
        restore_marker=None,
        sizes=sizes,
        archived_key=archive_key,
        archive_sha256=sha256,
        archived_at=now,
        archive_failures=0,
        generations=generations.with_latest(
            generations.after_commit(_with_current(home)), Generation(archive_key, sha256)
        ),
        return_given_up=None,
    )


def at_snapshot_commit(
    home: HomeContext,
    *,
    archive_key: str,
    sha256: str | None,
    sizes: Mapping[str, int],
    now: datetime | None = None,
) -> HomeContext:
    """``home_ctx`` when an archive is committed for a snapshot: the volume is the home, and equal to the archive.

    As after a restore of that archive, so what follows knows nothing of snapshots.
    """
    committed = at_archive_commit(home, archive_key=archive_key, sha256=sha256, sizes=sizes, now=now)
    return replace(committed, volume=True, restore_marker=archive_key)


def at_switch(ws: WorkspaceView, chosen: ChosenArchive) -> HomeContext:
    """``home_ctx`` when the chosen archive becomes the home, in place of the current one.

    Only where no volume counts (``plan``): the marker and the mark go, so that whatever volume is found is restored
    over or deleted. The archive that was current is kept like a new one.
    """
    remembered = _with_current(ws.home)
    if ws.archive_key is not None:
        left = generations.find(remembered, ws.archive_key) or Generation(ws.archive_key)
        remembered = generations.with_latest(remembered, replace(left, left=0))
    current = generations.find(remembered, chosen.archive_key) or Generation(chosen.archive_key)
    return replace(
        ws.home,
        volume=False,
        restore_marker=None,
        sizes=chosen.sizes,
        archived_key=chosen.archive_key,
        archive_sha256=chosen.sha256,
        archived_at=chosen.created_at,
        generations=generations.with_latest(remembered, replace(current, sha256=chosen.sha256, left=None)),
        return_given_up=None,
    )


def at_archiving_given_up(
    home: HomeContext, *, retry_at: datetime, return_given_up: str | None = None
) -> HomeContext:
    """``home_ctx`` when archiving is given up until ``retry_at``, and with it a return to an earlier archive."""
    return replace(
        home,
        archive_failures=home.archive_failures + 1,
        archive_retry_at=retry_at,
        return_given_up=return_given_up or home.return_given_up,
        keeps_volume=False,
    )


def at_restored(home: HomeContext, *, archive_key: str) -> HomeContext:
    """``home_ctx`` when the volume holds all of this archive: it is not damaged."""
    return replace(home, restore_marker=archive_key, generations=_judged(home, archive_key, damaged=False))


def at_completion(ws: WorkspaceView, *, now: datetime) -> HomeContext:
    """``home_ctx`` when the operation in flight completes."""
    match ws.operation:
        case Operation.PROVISIONING | Operation.RESTORING:
            return marked(ws.home)  # from now on its absence is a loss
        case Operation.STARTING:
            return replace(ws.home, ran_at=now)
        case Operation.ARCHIVING:
            return replace(ws.home, keeps_volume=False)
        case _:
            return ws.home


def at_failure(ws: WorkspaceView) -> HomeContext:
    """``home_ctx`` after a failed execution: clear the marker of a restore.

    The execution runs again, and a restore that runs again makes a volume that is not trusted yet. The marker
    is set if the restore itself succeeded and only its effect was never observed.
    """
    if ws.operation is Operation.RESTORING:
        return replace(ws.home, restore_marker=None)
    return ws.home


def at_crash(home: HomeContext, *, crashes: int) -> HomeContext:
    """``home_ctx`` after a crash.

    ``crashes``: in a row, this one included; 0 where it ran long and how it ended is not known.
    """
    return replace(home, ran_at=None, crashes=crashes)


def at_recovery(ws: WorkspaceView) -> HomeContext:
    """``home_ctx`` when a person recovers: reset crashes, accept a reported loss.

    Any other error leaves the volume marked. If the volume is gone all the same, the plan halts and reports
    it: recovering from a failed stop, say, accepts no loss.

    A loss is accepted only after the Observer has set health to ERROR. Then the plan waits until health is OK
    again, which takes a new observation, and that finds a disk that was mounted again meanwhile. With health
    still OK the plan would go on at once, from the old observation, and restore an older home over the one
    that came back: a person who recovers that early has to recover once more.
    """
    accepted = (
        ws.observed_status is ObservedStatus.PENDING
        and ws.health_status is HealthStatus.ERROR
        and ws.volume_has_vanished
    )
    return replace(
        ws.home,
        volume=ws.home.volume and not accepted,
        ran_at=None,
        crashes=0,
        archive_failures=0,
        archive_retry_at=None,
    )


def at_choice(ws: WorkspaceView) -> HomeContext:
    """``home_ctx`` when a person lifts an error by choosing another archive: remember the one that was damaged."""
    lifted = at_recovery(ws)
    error = ws.error_info
    if error is None or error.reason is not Reason.DATA_LOST or ws.archive_key is None:
        return lifted
    return replace(lifted, generations=_judged(lifted, ws.archive_key, damaged=True))


def at_return_to_archive(ws: WorkspaceView) -> HomeContext:
    """``home_ctx`` when a person gives a home up that is out of reach: the last archive is the home.

    Without its marker the volume counts no more, whether its node comes back or not: what follows is a restore, or,
    where the workspace is to be archived, the deletion of the volume.
    """
    return replace(at_recovery(ws), restore_marker=None, volume=False)


def volume_vanished(ws: WorkspaceView, *, now: datetime) -> ErrorInfo:
    """The terminal error for a completed home that is gone although nobody removed it."""
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


def _with_current(home: HomeContext) -> Generations:
    """The remembered generations, with the current one of a row that was written by an older release."""
    if home.archived_key is None or generations.find(home.generations, home.archived_key) is not None:
        return home.generations
    return generations.with_latest(home.generations, Generation(home.archived_key, home.archive_sha256))


def _judged(home: HomeContext, archive_key: str, *, damaged: bool) -> Generations:
    known = generations.find(_with_current(home), archive_key) or Generation(archive_key)
    if known.damaged == damaged:
        return home.generations
    return tuple(
        replace(each, damaged=damaged) if each.archive_key == archive_key else each
        for each in generations.with_latest(_with_current(home), known)
    )
