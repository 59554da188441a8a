"""How ``home_ctx`` changes: at a claim, at the commit of an archive, at completion.

``home_ctx`` is what lets the Reconciler tell a home from a directory that merely exists. Each function
gives the whole new value; the store writes it in the same statement as the change it belongs to, so no
crash can separate a claim from the trust it takes away.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView


def at_claim(ws: WorkspaceView, operation: Operation) -> HomeContext:
    match operation:
        case Operation.RESTORING:
            # The same archive may be restored twice: an old marker would vouch for a half-made volume.
            return replace(ws.home, restore_marker=None)
        case Operation.STARTING:
            # Still carrying ran_at here means it ran longer than the crash window: a clean slate.
            return replace(ws.home, ran_at=None, crashes=0 if ws.home.ran_at else ws.home.crashes)
        case Operation.STOPPING:
            return replace(ws.home, ran_at=None, crashes=0)
        case _:
            return ws.home


def at_archive_commit(home: HomeContext, *, sizes: Mapping[str, int]) -> HomeContext:
    """From here on the archive is the home; what is left of the volume is only rubbish to remove."""
    return replace(home, volume=False, restore_marker=None, sizes=sizes)


def at_restored(home: HomeContext, *, archive_key: str) -> HomeContext:
    return replace(home, restore_marker=archive_key)


def at_completion(ws: WorkspaceView, *, now: datetime) -> HomeContext:
    match ws.operation:
        case Operation.PROVISIONING | Operation.RESTORING:
            return replace(ws.home, volume=True)  # from now on its absence is a loss
        case Operation.STARTING:
            return replace(ws.home, ran_at=now)
        case _:
            return ws.home


def at_crash(home: HomeContext) -> HomeContext:
    return replace(home, ran_at=None, crashes=home.crashes + 1)


def at_recovery(ws: WorkspaceView) -> HomeContext:
    """A person said "go on": crashes are forgiven, and a volume that vanished is accepted as gone.

    Any other error leaves the mark: the volume is still there, and its absence would still be a loss.
    """
    vanished = ws.observed_status is ObservedStatus.PENDING and ws.home.volume
    return replace(ws.home, volume=ws.home.volume and not vanished, ran_at=None, crashes=0)
