"""What the statements of ``codehub.store`` do, on the simulated database: locks and claims.

Each function is the twin of the one of the same name in ``codehub.store.control`` (see ``store``). One
``statement`` call per statement the real one sends, so that a fault can fall between any two of them.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.domain.copies import CopySource
from codehub.domain.errors import ErrorInfo
from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import Snapshot, Snapshots, WantedSnapshot
from codehub.domain.states import Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.workspaces.bulk_claims import Completion, Step
from codehub.store.workspaces.claims import ClaimedOperation
from tests.simulation.connection import Session
from tests.simulation.rows import Row

WORKSPACES = "workspaces"

Columns = Callable[[WorkspaceView], Mapping[str, Any]]


async def set_actor(session: Session, actor: str, cause: str = "") -> None:
    del actor, cause
    await session.statement("set_actor")


async def now(session: Session) -> datetime:
    await session.statement("now")
    return session.db.now()


def views(session: Session) -> list[WorkspaceView]:
    return [row.view for row in session.db.scan(session.transaction, WORKSPACES)]


async def lock_in_order(session: Session, ids: Collection[UUID]) -> None:
    if len(ids) < 2:
        return
    await session.statement("lock_in_order")
    for each in sorted(ids):
        await session.db.lock(session.transaction, (WORKSPACES, each))


@dataclass(frozen=True)
class Change:
    """What a statement writes to one row, where it matches."""

    key: UUID
    condition: Callable[[Row], bool]
    columns: Columns


async def update(session: Session, *changes: Change) -> list[Row]:
    """``UPDATE workspaces … WHERE id = … AND condition RETURNING …``, for one row or several.

    Which rows match is judged by what was there when the statement began; these alone are locked. Each is
    judged again once its lock is there: another may have written it meanwhile.
    """
    db, transaction = session.db, session.transaction
    written = []
    found = [(each, session.seen(WORKSPACES, each.key)) for each in changes]
    for change, seen in found:
        if seen is None or not change.condition(seen):
            continue
        await db.lock(transaction, (WORKSPACES, change.key))
        row = _judged_again(session, change, seen)
        if row is not None:
            after = row.changed(now=db.now(), **stored_columns(change.columns(row.view)))
            db.put(transaction, WORKSPACES, change.key, after)
            written.append(after)
    return written


def _judged_again(session: Session, change: Change, seen: Row) -> Row | None:
    """The row as it is under the lock; None: it does not match any more."""
    del seen
    row: Row | None = session.db.get(session.transaction, WORKSPACES, change.key)
    return row if row is not None and change.condition(row) else None


def stored_columns(columns: Mapping[str, Any]) -> dict[str, Any]:
    """As they come back from the table: what goes into a jsonb column has been through JSON."""
    return {name: _stored(value) for name, value in columns.items()}


def _stored(value: Any) -> Any:
    if isinstance(value, HomeContext):
        return HomeContext.from_json(as_stored(value.as_json()))
    if isinstance(value, ChosenArchive | WantedSnapshot | CopySource):
        return type(value).from_json(as_stored(value.as_json()))
    if isinstance(value, tuple):
        return tuple(Snapshot.from_json(as_stored(each.as_json())) for each in value)
    if isinstance(value, ErrorInfo):
        return ErrorInfo.from_json(as_stored(value.as_json()))
    return value


def as_stored(value: Mapping[str, Any]) -> dict[str, Any]:
    """Through JSON and back. Raises ``TypeError`` for what JSON cannot say, as the store does."""
    stored: dict[str, Any] = json.loads(json.dumps(value))
    return stored


async def append_note(session: Session, workspace_id: UUID, *, actor: str, cause: str) -> None:
    del workspace_id, actor, cause
    await session.statement("append_note", fits_fence=False)


async def claim_all(session: Session, steps: Sequence[Step]) -> dict[UUID, WorkspaceView]:
    names = " ".join(sorted({step.operation.value for step in steps}))
    await session.statement(f"claim {names}", writes=True)
    claimed = await update(session, *(_claim(session, step) for step in steps))
    return {row.view.id: row.view for row in claimed}


def _claim(session: Session, step: Step) -> Change:
    op_id = UUID(int=session.db.random.getrandbits(128), version=4)
    return Change(
        step.workspace.id,
        _as_planned(step.workspace),
        lambda ws: {
            "operation": step.operation,
            "op_id": op_id,
            "op_seq": ws.op_seq + 1,
            "op_started_at": session.db.now(),
            "op_acted_at": None,
            "error_count": 0,
            "last_retry_at": None,
            "home": step.home,
        },
    )


async def holds(session: Session, claim: ClaimedOperation) -> bool:
    await session.statement("holds")
    row: Row | None = session.db.get(session.transaction, WORKSPACES, claim.workspace_id)
    return row is not None and _fence(claim)(row)


async def catch_up(session: Session, claim: ClaimedOperation, *, seen_op_seq: int) -> bool:
    return await _write(session, claim, "catch_up", lambda ws: {"op_seq": max(ws.op_seq, seen_op_seq + 1)})


async def complete_all(session: Session, done: Sequence[Completion]) -> set[UUID]:
    await session.statement("complete", writes=True)
    written = await update(session, *(_completion(session, each) for each in done))
    return {row.view.id for row in written}


def _completion(session: Session, done: Completion) -> Change:
    return Change(
        done.claim.workspace_id,
        _fence(done.claim),
        lambda _: {
            "operation": Operation.NONE,
            "op_acted_at": done.acted_at,
            "error_count": 0,
            "error_info": None,
            "last_retry_at": None,
            "home": done.home,
            "last_access_at": session.db.now(),
        },
    )


async def record_failure(
    session: Session, claim: ClaimedOperation, error: ErrorInfo, *, home: HomeContext
) -> bool:
    return await _write(
        session,
        claim,
        "record_failure",
        lambda _: {
            "error_info": error,
            "error_count": error.error_count,
            "last_retry_at": session.db.now(),
            "op_acted_at": None,
            "home": home,
        },
    )


async def go_terminal(session: Session, claim: ClaimedOperation, error: ErrorInfo) -> bool:
    return await _write(
        session,
        claim,
        "go_terminal",
        lambda ws: {
            "operation": Operation.NONE,
            "error_info": error,
            "error_count": error.error_count,
            "previous_status": ws.observed_status,
        },
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
    return await _write(
        session,
        claim,
        "release",
        lambda ws: {
            "operation": Operation.NONE,
            "error_info": error,
            "error_count": error.error_count,
            "last_retry_at": None,
            "home": home,
            "restore_from": None if chosen_key(ws) == return_given_up else ws.restore_from,
            "snapshot_as": None if wanted_id(ws) == snapshot_given_up else ws.snapshot_as,
        },
    )


async def commit_archive_key(
    session: Session, claim: ClaimedOperation, archive_key: str, *, home: HomeContext
) -> bool:
    def columns(ws: WorkspaceView) -> dict[str, Any]:
        committed = {"archive_key": archive_key, "home": home, "snapshot_as": None}
        ended = {"op_acted_at": session.db.now()} if home.keeps_volume else {}
        return {**committed, **ended, "snapshots": with_taken(ws, archive_key, home)}

    return await _write(session, claim, "commit_archive_key", columns)


def with_taken(ws: WorkspaceView, archive_key: str, home: HomeContext) -> Snapshots:
    """The snapshots once an archive is committed: it is the one that is wanted, if one is."""
    if ws.snapshot_as is None:
        return ws.snapshots
    taken = Snapshot(
        ws.snapshot_as.id,
        ws.snapshot_as.name,
        archive_key,
        home.archived_at or ws.snapshot_as.asked_at,
        sha256=home.archive_sha256,
        sizes=home.sizes,
    )
    return (*ws.snapshots, taken)


async def mark_restored(session: Session, claim: ClaimedOperation, *, home: HomeContext) -> bool:
    return await _write(
        session,
        claim,
        "mark_restored",
        lambda _: {"home": home, "op_acted_at": session.db.now()},
    )


async def record_crash(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext, wait: bool = True
) -> bool:
    return await _write_as_planned(
        session,
        workspace,
        "record_crash",
        lambda _: {
            "error_info": error,
            "error_count": error.error_count,
            "last_retry_at": session.db.now() if wait else None,
            "home": home,
        },
    )


async def set_error_without_operation(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext
) -> bool:
    return await _write_as_planned(
        session,
        workspace,
        "set_error_without_operation",
        lambda ws: {
            "error_info": error,
            "error_count": error.error_count,
            "previous_status": ws.observed_status,
            "home": home,
        },
    )


async def mark_home(session: Session, workspace: WorkspaceView, *, home: HomeContext) -> bool:
    return await _write_as_planned(session, workspace, "mark_home", lambda _: {"home": home})


async def switch_archive(
    session: Session, workspace: WorkspaceView, *, archive_key: str, home: HomeContext
) -> bool:
    return await _write_as_planned(
        session,
        workspace,
        "switch_archive",
        lambda _: {"archive_key": archive_key, "home": home, "restore_from": None},
    )


def chosen_key(ws: WorkspaceView) -> str | None:
    return ws.restore_from.archive_key if ws.restore_from is not None else None


def wanted_id(ws: WorkspaceView) -> UUID | None:
    return ws.snapshot_as.id if ws.snapshot_as is not None else None


async def _write_as_planned(session: Session, workspace: WorkspaceView, what: str, columns: Columns) -> bool:
    await session.statement(what, writes=True)
    return bool(await update(session, Change(workspace.id, _as_planned(workspace), columns)))


async def _write(session: Session, claim: ClaimedOperation, what: str, columns: Columns) -> bool:
    await session.statement(what, writes=True)
    return bool(await update(session, Change(claim.workspace_id, _fence(claim), columns)))


def _fence(claim: ClaimedOperation) -> Callable[[Row], bool]:
    return lambda row: row.view.op_id == claim.op_id and row.view.operation is claim.operation


def _as_planned(workspace: WorkspaceView) -> Callable[[Row], bool]:
    def condition(row: Row) -> bool:
        ws = row.view
        return ws.operation is Operation.NONE and (
            ws.op_seq,
            ws.desired_state,
            ws.observed_status,
            ws.health_status,
            ws.archive_key,
            ws.deleted_at,
            chosen_key(ws),
            wanted_id(ws),
            ws.error_info is None,
        ) == (
            workspace.op_seq,
            workspace.desired_state,
            workspace.observed_status,
            workspace.health_status,
            workspace.archive_key,
            workspace.deleted_at,
            chosen_key(workspace),
            wanted_id(workspace),
            workspace.error_info is None,
        )

    return condition
