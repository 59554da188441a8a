"""Decide whether an operation is complete.

It is when its target was observed, by an observation that began after the action ended.

An action that returned success proves nothing: containers and volumes are the truth, the row is what was last
seen of them. RESTORING and ARCHIVING need more than
their target, because a volume that exists may be half a home, and one that is gone may be a loss.
"""

from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView

TARGET: dict[Operation, ObservedStatus] = {
    Operation.PROVISIONING: ObservedStatus.STANDBY,
    Operation.RESTORING: ObservedStatus.STANDBY,
    Operation.STARTING: ObservedStatus.RUNNING,
    Operation.STOPPING: ObservedStatus.STANDBY,
    Operation.ARCHIVING: ObservedStatus.PENDING,
    Operation.DELETING: ObservedStatus.DELETED,
}


def target_of(ws: WorkspaceView) -> ObservedStatus:
    """What the operation in flight leads to. An archiving for a snapshot keeps the volume."""
    if ws.operation is Operation.ARCHIVING and ws.home.keeps_volume:
        return ObservedStatus.STANDBY
    return TARGET[ws.operation]


def is_complete(ws: WorkspaceView) -> bool:
    """Whether the operation's target was observed after its action ended."""
    if ws.op_acted_at is None or ws.observed_at is None or ws.observed_at <= ws.op_acted_at:
        return False
    if ws.observed_status is ObservedStatus.DELETED:  # there is nothing left to wait for
        return True
    if ws.observed_status is not target_of(ws):
        return False
    if ws.operation is Operation.ARCHIVING and ws.home.keeps_volume:
        # op_acted_at is written by the statement that commits the archive: its key, and the volume as its equal.
        return ws.archive_key is not None and ws.volume_is_trusted
    if ws.operation is Operation.RESTORING:
        return ws.archive_key is not None and ws.home.restore_marker == ws.archive_key
    if ws.operation is Operation.ARCHIVING:
        # Committing archive_key makes the volume untrusted in the same statement. So "there is an
        # archive and the volume no longer counts" covers both this operation's own archive and the case
        # that only deletes; a volume that vanished before the commit is still trusted, and fails here.
        return ws.archive_key is not None and not ws.volume_is_trusted
    return True
