"""Write the Reconciler's columns: one operation per workspace, fenced by op_id.

A claim is a compare-and-set from ``operation = 'NONE'``: of two concurrent claims PostgreSQL lets one
through. Every later write of the operation is fenced with its ``op_id`` *and* its ``operation`` (op_id
outlives a terminal error, so op_id alone is no fence). A fenced write that returns False means another
operation owns the workspace now: log, drop the result.

A process that dies between any two of these leaves an operation in flight, which the next leader finds by
``due.load_in_flight`` and runs again under the same op_id.

Claims, and completions with the end of their actions, are written in bulk: ``bulk_claims``. Several
workspaces in one transaction are locked in the order of their ids (``row_locks``), or two coordinators
deadlock.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import ColumnElement, and_, func, literal, update
from sqlmodel import col, select

from codehub.domain.errors import ErrorInfo
from codehub.domain.states import Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.db.session import Session
from codehub.store.db.statements import clock, rows_written
from codehub.store.schema.tables import Workspace
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.intents import (
    RETURNED,
    giving_up_return,
    giving_up_snapshot,
    is_chosen,
    is_wanted,
    taking_snapshot,
)


@dataclass(frozen=True)
class ClaimedOperation:
    """The identity of an operation in flight; every later write is fenced with it."""

    workspace_id: UUID
    operation: Operation
    op_id: UUID
    op_seq: int

    @classmethod
    def of(cls, workspace: WorkspaceView) -> "ClaimedOperation":
        """Return the operation in flight of a workspace, for the leader that adopts it."""
        if workspace.operation is Operation.NONE or workspace.op_id is None:
            raise ValueError(f"workspace {workspace.id} has no operation in flight")
        return cls(workspace.id, workspace.operation, workspace.op_id, workspace.op_seq)


async def holds(session: Session, claim: ClaimedOperation) -> bool:
    """Return whether this operation is still ours.

    Checked once more right before a volume is deleted.
    """
    return (await session.exec(select(literal(1)).where(_fence(claim)))).first() is not None


async def catch_up(session: Session, claim: ClaimedOperation, *, seen_op_seq: int) -> bool:
    """Raise ``op_seq`` above the highest the runtime has seen. Fenced.

    A runtime that has seen a higher sequence than this row's means that the database was restored from a
    backup. A leader that was replaced matches no row.
    """
    return await _write(session, claim, op_seq=func.greatest(col(Workspace.op_seq), seen_op_seq + 1))


async def record_failure(
    session: Session, claim: ClaimedOperation, error: ErrorInfo, *, home: HomeContext
) -> bool:
    """Record a failed execution; the operation stays in flight and backs off. Fenced.

    ``home`` (``domain/home.at_failure``) makes a volume that is about to be recreated untrusted in the same
    statement: a process that dies during the retry leaves no volume that looks complete.
    """
    return await _write(
        session,
        claim,
        error_info=error.as_json(),
        error_count=error.error_count,
        last_retry_at=clock(),
        op_acted_at=None,  # the action runs again: older observations prove nothing about it
        home_ctx=home.as_json(),
    )


async def go_terminal(session: Session, claim: ClaimedOperation, error: ErrorInfo) -> bool:
    """Set a terminal error, which only a person lifts. Fenced.

    Called after the action and its storage job are confirmed gone. op_id stays: it protects a half-made
    archive from the GC. ``previous_status`` is copied in SQL, so it is what the Observer wrote last and not
    what this leader read.
    """
    return await _write(
        session,
        claim,
        operation=Operation.NONE,
        error_info=error.as_json(),
        error_count=error.error_count,
        previous_status=col(Workspace.observed_status),
    )


async def release(
    session: Session,
    claim: ClaimedOperation,
    error: ErrorInfo,
    *,
    home: HomeContext,
    return_given_up: str | None = None,
    snapshot_given_up: UUID | None = None,
) -> bool:
    """End an archiving that is retried later (``domain/policy.Release``). Fenced.

    Called after its storage job is confirmed gone. The error is not terminal: the current desired state is
    planned at once. op_id stays, as in ``go_terminal``. ``return_given_up``: the chosen archive that this archiving
    was for; returning to it is given up in the same statement. ``snapshot_given_up``: likewise, the snapshot.
    """
    return await _write(
        session,
        claim,
        operation=Operation.NONE,
        error_info=error.as_json(),
        error_count=error.error_count,
        last_retry_at=None,
        home_ctx=home.as_json(),
        **(giving_up_return(return_given_up) if return_given_up is not None else {}),
        **(giving_up_snapshot(snapshot_given_up) if snapshot_given_up is not None else {}),
    )


async def commit_archive_key(
    session: Session, claim: ClaimedOperation, archive_key: str, *, home: HomeContext
) -> bool:
    """Commit a complete, read-back archive as the home. Fenced.

    From this commit on the volume may be deleted. ``home`` (``domain/home.at_archive_commit``) makes the
    volume untrusted in the same statement: a process that dies while deleting it leaves a volume that is
    never started on or archived again. A snapshot that is wanted is met by it, in the same statement.

    With ``home.keeps_volume`` (``at_snapshot_commit``) the volume stays the home, and the action has ended.
    """
    ended = {"op_acted_at": clock()} if home.keeps_volume else {}
    return await _write(
        session,
        claim,
        archive_key=archive_key,
        home_ctx=home.as_json(),
        **taking_snapshot(archive_key, home),
        **ended,
    )


async def mark_restored(session: Session, claim: ClaimedOperation, *, home: HomeContext) -> bool:
    """Record that the volume holds all of the archive and the action ended. Fenced.

    One statement: both or neither.
    """
    return await _write(session, claim, home_ctx=home.as_json(), op_acted_at=clock())


async def record_crash(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext, wait: bool = True
) -> bool:
    """Record that a container left RUNNING unasked. Compare-and-set.

    ``wait``: it crashed soon after its start, so back off before the next one.
    """
    statement = (
        update(w)
        .where(_as_planned(workspace))
        .values(
            error_info=error.as_json(),
            error_count=error.error_count,
            last_retry_at=clock() if wait else None,
            home_ctx=home.as_json(),
        )
    )
    return await rows_written(session, statement) == 1


async def set_error_without_operation(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext
) -> bool:
    """Set a terminal error with no operation in flight. Compare-and-set.

    For a volume that vanished, or too many crashes.
    """
    statement = (
        update(w)
        .where(_as_planned(workspace))
        .values(
            error_info=error.as_json(),
            error_count=error.error_count,
            previous_status=col(Workspace.observed_status),
            home_ctx=home.as_json(),
        )
    )
    return await rows_written(session, statement) == 1


async def mark_home(session: Session, workspace: WorkspaceView, *, home: HomeContext) -> bool:
    """Write only the home context, such as that a volume exists. Compare-and-set.

    See ``domain/home.marked``.
    """
    statement = update(w).where(_as_planned(workspace)).values(home_ctx=home.as_json())
    return await rows_written(session, statement) == 1


async def switch_archive(
    session: Session, workspace: WorkspaceView, *, archive_key: str, home: HomeContext
) -> bool:
    """Make the chosen archive the home, and the intent met. Compare-and-set.

    ``home`` comes from ``domain/home.at_switch``. One statement: a process that dies before it has changed nothing, one
    that dies after it leaves a row whose next step is an ordinary restore.
    """
    statement = (
        update(w)
        .where(_as_planned(workspace))
        .values(archive_key=archive_key, home_ctx=home.as_json())
        .values(RETURNED)
    )
    return await rows_written(session, statement) == 1


async def _write(session: Session, claim: ClaimedOperation, **values: object) -> bool:
    statement = update(w).where(_fence(claim)).values(**values)
    return await rows_written(session, statement) == 1


def _fence(claim: ClaimedOperation) -> ColumnElement[bool]:
    return and_(
        col(Workspace.id) == claim.workspace_id,
        col(Workspace.op_id) == claim.op_id,
        col(Workspace.operation) == claim.operation,
    )


def _as_planned(workspace: WorkspaceView) -> ColumnElement[bool]:
    """Match a row without an operation whose columns read by the plan are unchanged.

    ``op_seq`` stands for ``home_ctx`` and the other columns only operations change. The version is not
    compared: an edit of the memo is no reason to plan again.
    """
    return and_(
        col(Workspace.id) == workspace.id,
        col(Workspace.operation) == Operation.NONE,
        col(Workspace.op_seq) == workspace.op_seq,
        col(Workspace.desired_state) == workspace.desired_state,
        col(Workspace.observed_status) == workspace.observed_status,
        col(Workspace.health_status) == workspace.health_status,
        col(Workspace.archive_key).is_not_distinct_from(workspace.archive_key),
        col(Workspace.deleted_at).is_not_distinct_from(workspace.deleted_at),
        is_chosen(workspace.restore_from.archive_key if workspace.restore_from else None),
        is_wanted(workspace.snapshot_as.id if workspace.snapshot_as else None),
        col(Workspace.error_info).is_(None)
        if workspace.error_info is None
        else col(Workspace.error_info).is_not(None),
    )
