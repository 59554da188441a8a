"""The Reconciler's writes: one operation per workspace, and only its owner writes for it.

A claim is a compare-and-set from ``operation = 'NONE'``; of two that try, PostgreSQL lets one through.
Everything the operation writes later is fenced with its ``op_id`` *and* its ``operation`` (op_id outlives
a terminal error, so op_id alone is no fence). A fenced write that returns False means somebody else
owns the workspace now: log, drop the result.

A process that dies between any two of these leaves an operation in flight, which the next leader finds
by ``due.load_in_flight`` and runs again under the same op_id.

Claims, ended actions and completions come in bulk: ``steps``. Several workspaces in one transaction: in the
order of their ids (``row_locks``), or two coordinators may wait for each other.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Update, and_, func, literal, select, update

from codehub.domain.errors import ErrorInfo
from codehub.domain.states import Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.db.session import Session
from codehub.store.db.statements import rows_written
from codehub.store.schema.tables import workspaces as w


@dataclass(frozen=True)
class Claim:
    """An operation of ours: what every later write of it is fenced with."""

    workspace_id: UUID
    operation: Operation
    op_id: UUID
    op_seq: int

    @classmethod
    def of(cls, workspace: WorkspaceView) -> "Claim":
        """The operation in flight of a workspace, for the leader that adopts it."""
        if workspace.operation is Operation.NONE or workspace.op_id is None:
            raise ValueError(f"workspace {workspace.id} has no operation in flight")
        return cls(workspace.id, workspace.operation, workspace.op_id, workspace.op_seq)


async def holds(session: Session, claim: Claim) -> bool:
    """Whether this operation is still ours. Asked once more right before a volume is deleted."""
    return (await session.execute(select(literal(1)).where(_fence(claim)))).first() is not None


async def catch_up(session: Session, claim: Claim, *, seen_op_seq: int) -> bool:
    """The runtime has seen a higher sequence than this row's: the database came from a backup. Go beyond it.

    Fenced like every write: a leader that was replaced meets no row here, however it came to ask.
    """
    return await _write(session, claim, op_seq=func.greatest(w.c.op_seq, seen_op_seq + 1))


async def record_failure(session: Session, claim: Claim, error: ErrorInfo, *, home: HomeContext) -> bool:
    """One execution failed; the operation stays in flight and backs off from now.

    ``home`` (``domain/home.at_failure``) takes the trust from a volume that is about to be made again, in
    the same statement: a process that dies during the retry leaves nothing that looks whole.
    """
    return await _write(
        session,
        claim,
        error_info=error.as_json(),
        error_count=error.error_count,
        last_retry_at=func.clock_timestamp(),
        op_acted_at=None,  # the action runs again: older observations prove nothing about it
        home_ctx=home.as_json(),
    )


async def go_terminal(session: Session, claim: Claim, error: ErrorInfo) -> bool:
    """Give up, after the action and its storage job are confirmed gone. Only a person lifts this.

    op_id stays: it protects a half-made archive from the GC. ``previous_status`` is copied in SQL, so it
    is what the Observer wrote last and not what this leader remembers.
    """
    return await _write(
        session,
        claim,
        operation=Operation.NONE,
        error_info=error.as_json(),
        error_count=error.error_count,
        previous_status=w.c.observed_status,
    )


async def release(session: Session, claim: Claim, error: ErrorInfo, *, home: HomeContext) -> bool:
    """Archiving is given up for a while (``domain/policy.Release``), after its storage job is confirmed gone.

    Nothing terminal: whatever is wanted now is planned at once. op_id stays, as in ``go_terminal``.
    """
    return await _write(
        session,
        claim,
        operation=Operation.NONE,
        error_info=error.as_json(),
        error_count=error.error_count,
        last_retry_at=None,
        home_ctx=home.as_json(),
    )


async def commit_archive_key(session: Session, claim: Claim, archive_key: str, *, home: HomeContext) -> bool:
    """The archive is complete and read back: from this commit on it is the home, and the volume may go.

    ``home`` (``domain/home.at_archive_commit``) takes all trust from the volume in the same statement: a
    process that dies while deleting it leaves a volume nobody will start on or archive again.
    """
    return await _write(session, claim, archive_key=archive_key, home_ctx=home.as_json())


async def mark_restored(session: Session, claim: Claim, *, home: HomeContext) -> bool:
    """The volume holds all of the archive, and the action has ended: both or neither."""
    return await _write(session, claim, home_ctx=home.as_json(), op_acted_at=func.clock_timestamp())


async def record_crash(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext, wait: bool = True
) -> bool:
    """A container left RUNNING unasked. ``wait``: soon after it got there, so not started again at once."""
    statement = (
        update(w)
        .where(_as_planned(workspace))
        .values(
            error_info=error.as_json(),
            error_count=error.error_count,
            last_retry_at=func.clock_timestamp() if wait else None,
            home_ctx=home.as_json(),
        )
    )
    return await rows_written(session, statement) == 1


async def set_error_without_operation(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext
) -> bool:
    """Terminal though nothing is in flight: the volume vanished, or one crash too many."""
    statement = (
        update(w)
        .where(_as_planned(workspace))
        .values(
            error_info=error.as_json(),
            error_count=error.error_count,
            previous_status=w.c.observed_status,
            home_ctx=home.as_json(),
        )
    )
    return await rows_written(session, statement) == 1


async def mark_home(session: Session, workspace: WorkspaceView, *, home: HomeContext) -> bool:
    """Only what is known of the home changes, such as that one is there (``domain/home.marked``)."""
    statement = update(w).where(_as_planned(workspace)).values(home_ctx=home.as_json())
    return await rows_written(session, statement) == 1


async def _write(session: Session, claim: Claim, **values: Any) -> bool:
    statement: Update = update(w).where(_fence(claim)).values(**values)
    return await rows_written(session, statement) == 1


def _fence(claim: Claim) -> ColumnElement[bool]:
    return and_(w.c.id == claim.workspace_id, w.c.op_id == claim.op_id, w.c.operation == claim.operation)


def _as_planned(workspace: WorkspaceView) -> ColumnElement[bool]:
    """Still free, and every column a plan reads still as it was read.

    ``op_seq`` stands for ``home_ctx`` and whatever else only operations change. The version is not
    compared: somebody editing the memo is no reason to plan again.
    """
    return and_(
        w.c.id == workspace.id,
        w.c.operation == Operation.NONE,
        w.c.op_seq == workspace.op_seq,
        w.c.desired_state == workspace.desired_state,
        w.c.observed_status == workspace.observed_status,
        w.c.health_status == workspace.health_status,
        w.c.archive_key.is_not_distinct_from(workspace.archive_key),
        w.c.deleted_at.is_not_distinct_from(workspace.deleted_at),
        w.c.error_info.is_(None) if workspace.error_info is None else w.c.error_info.is_not(None),
    )
