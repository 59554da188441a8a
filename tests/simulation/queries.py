"""What the statements of ``codehub.store`` do, on the simulated database: terms and claims.

Each function stands in for the one of the same name (``substitution``). One ``statement`` call per statement
the real one sends, so that a fault can fall between any two of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from codehub.coordinators.leadership import lock_key
from codehub.domain.errors import ErrorInfo
from codehub.domain.states import Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.cluster.terms import LAST_ERROR, LONGEST_ERROR, Term
from codehub.store.workspaces.bulk_claims import Completion, Step
from codehub.store.workspaces.claims import Claim
from tests.simulation.connection import Session
from tests.simulation.rows import Row

WORKSPACES, TERMS = "workspaces", "system_locks"
RECORD_EVERY = timedelta(seconds=1)


async def set_actor(session: Session, actor: str, cause: str = "") -> None:
    del actor, cause
    await session.db.statement(session.transaction, "set_actor")


async def now(session: Session) -> datetime:
    await session.db.statement(session.transaction, "now")
    return session.db.now()


def views(session: Session) -> list[WorkspaceView]:
    return [row.view for row in session.db.scan(session.transaction, WORKSPACES)]


async def lock_in_order(session: Session, ids: Any) -> None:
    if len(ids) < 2:
        return
    await session.db.statement(session.transaction, "lock_in_order")
    for each in sorted(ids):
        await session.db.lock(session.transaction, (WORKSPACES, each))


async def update(
    session: Session,
    workspace_id: UUID,
    condition: Callable[[WorkspaceView], bool],
    columns: Callable[[WorkspaceView], Mapping[str, Any]],
) -> Row | None:
    """``UPDATE workspaces … WHERE id = … AND condition``; None: it met no row.

    A row that does not match is not locked. One that matches is, and judged again once the lock is there.
    """
    db, transaction = session.db, session.transaction
    row: Row | None = db.get(transaction, WORKSPACES, workspace_id)
    if row is None or not condition(row.view):
        return None
    await db.lock(transaction, (WORKSPACES, workspace_id))
    row = db.get(transaction, WORKSPACES, workspace_id)
    if row is None or not condition(row.view):
        return None
    after = row.changed(now=db.now(), **columns(row.view))
    db.put(transaction, WORKSPACES, workspace_id, after)
    return after


# leadership


async def acquire_term(session: Session, lock_name: str, holder_id: str) -> Term:
    db, transaction = session.db, session.transaction
    await db.statement(transaction, "acquire_term")
    await db.lock(transaction, (TERMS, lock_name))
    old: Term | None = db.get(transaction, TERMS, lock_name)
    epoch, ticked, told = (old.epoch + 1, old.last_tick_at, old.detail) if old else (1, None, {})
    detail = {key: value for key, value in told.items() if key != LAST_ERROR}
    term = Term(lock_name, holder_id, db.now(), epoch, ticked, detail)
    db.put(transaction, TERMS, lock_name, term)
    return term


async def hold_term(session: Session, lock_name: str, epoch: int, *, actor: str = "") -> datetime | None:
    del actor
    db, transaction = session.db, session.transaction
    await db.statement(transaction, "hold_term")
    transaction.term = (lock_name, epoch)
    for look_again in (True, False):
        term: Term | None = db.get(transaction, TERMS, lock_name)
        if term is None or term.epoch != epoch:
            return None
        if look_again:
            await db.lock(transaction, (TERMS, lock_name), "share")
    return db.now()


async def record_tick(session: Session, lock_name: str, *, detail: Mapping[str, Any]) -> None:
    db, transaction = session.db, session.transaction
    await db.statement(transaction, "record_tick")
    term: Term | None = db.get(transaction, TERMS, lock_name)
    if term is None:
        return
    at = db.now()
    if term.last_tick_at is None or term.last_tick_at < at - RECORD_EVERY or term.detail != detail:
        await db.lock(transaction, (TERMS, lock_name))
        term = db.get(transaction, TERMS, lock_name)
        assert term is not None
        renewed = Term(lock_name, term.holder_id, term.acquired_at, term.epoch, db.now(), detail)
        db.put(transaction, TERMS, lock_name, renewed)


async def record_error(session: Session, lock_name: str, error: str) -> None:
    db, transaction = session.db, session.transaction
    await db.statement(transaction, "record_error")
    await db.lock(transaction, (TERMS, lock_name))
    term: Term | None = db.get(transaction, TERMS, lock_name)
    if term is not None:
        told = replace(term, detail={**term.detail, LAST_ERROR: error[:LONGEST_ERROR]})
        db.put(transaction, TERMS, lock_name, told)


async def read_terms(session: Session) -> dict[str, Term]:
    await session.db.statement(session.transaction, "read_terms")
    found = session.db.scan(session.transaction, TERMS)
    return {
        term.lock_name: replace(term, is_held=session.db.is_advisory_held(lock_key(term.lock_name)))
        for term in found
    }


async def last_tick_at(session: Session, lock_name: str) -> datetime | None:
    await session.db.statement(session.transaction, "last_tick_at")
    term: Term | None = session.db.get(session.transaction, TERMS, lock_name)
    return term.last_tick_at if term else None


# claims


async def claim_all(session: Session, steps: Sequence[Step]) -> dict[UUID, WorkspaceView]:
    names = " ".join(sorted({step.operation.value for step in steps}))
    await session.db.statement(session.transaction, f"claim {names}")
    claimed = [await _claim(session, step) for step in steps]
    return {ws.id: ws for ws in claimed if ws is not None}


async def _claim(session: Session, step: Step) -> WorkspaceView | None:
    op_id = UUID(int=session.db.random.getrandbits(128), version=4)
    after = await update(
        session,
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
    return after.view if after else None


async def holds(session: Session, claim: Claim) -> bool:
    await session.db.statement(session.transaction, "holds")
    row: Row | None = session.db.get(session.transaction, WORKSPACES, claim.workspace_id)
    return row is not None and _fence(claim)(row.view)


async def catch_up(session: Session, claim: Claim, *, seen_op_seq: int) -> bool:
    return await _write(session, claim, "catch_up", lambda ws: {"op_seq": max(ws.op_seq, seen_op_seq + 1)})


async def complete_all(session: Session, done: Sequence[Completion]) -> set[UUID]:
    await session.db.statement(session.transaction, "complete")
    columns = {"operation": Operation.NONE, "error_count": 0, "error_info": None, "last_retry_at": None}
    written = set()
    for each in done:
        kept = {
            **columns,
            "op_acted_at": each.acted_at,
            "home": each.home,
            "last_access_at": session.db.now(),
        }
        if await update(session, each.claim.workspace_id, _fence(each.claim), partial(_given, kept)):
            written.add(each.claim.workspace_id)
    return written


def _given(columns: Mapping[str, Any], ws: WorkspaceView) -> Mapping[str, Any]:
    del ws
    return columns


async def record_failure(session: Session, claim: Claim, error: ErrorInfo, *, home: HomeContext) -> bool:
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


async def go_terminal(session: Session, claim: Claim, error: ErrorInfo) -> bool:
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


async def release(session: Session, claim: Claim, error: ErrorInfo, *, home: HomeContext) -> bool:
    return await _write(
        session,
        claim,
        "release",
        lambda _: {
            "operation": Operation.NONE,
            "error_info": error,
            "error_count": error.error_count,
            "last_retry_at": None,
            "home": home,
        },
    )


async def commit_archive_key(session: Session, claim: Claim, archive_key: str, *, home: HomeContext) -> bool:
    return await _write(
        session, claim, "commit_archive_key", lambda _: {"archive_key": archive_key, "home": home}
    )


async def mark_restored(session: Session, claim: Claim, *, home: HomeContext) -> bool:
    return await _write(
        session, claim, "mark_restored", lambda _: {"home": home, "op_acted_at": session.db.now()}
    )


async def record_crash(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext, wait: bool = True
) -> bool:
    await session.db.statement(session.transaction, "record_crash")
    after = await update(
        session,
        workspace.id,
        _as_planned(workspace),
        lambda _: {
            "error_info": error,
            "error_count": error.error_count,
            "last_retry_at": session.db.now() if wait else None,
            "home": home,
        },
    )
    return after is not None


async def set_error_without_operation(
    session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext
) -> bool:
    await session.db.statement(session.transaction, "set_error_without_operation")
    after = await update(
        session,
        workspace.id,
        _as_planned(workspace),
        lambda ws: {
            "error_info": error,
            "error_count": error.error_count,
            "previous_status": ws.observed_status,
            "home": home,
        },
    )
    return after is not None


async def mark_home(session: Session, workspace: WorkspaceView, *, home: HomeContext) -> bool:
    await session.db.statement(session.transaction, "mark_home")
    return await update(session, workspace.id, _as_planned(workspace), lambda _: {"home": home}) is not None


async def _write(
    session: Session, claim: Claim, what: str, columns: Callable[[WorkspaceView], Mapping[str, Any]]
) -> bool:
    await session.db.statement(session.transaction, what)
    return await update(session, claim.workspace_id, _fence(claim), columns) is not None


def _fence(claim: Claim) -> Callable[[WorkspaceView], bool]:
    return lambda ws: ws.op_id == claim.op_id and ws.operation is claim.operation


def _as_planned(workspace: WorkspaceView) -> Callable[[WorkspaceView], bool]:
    def condition(ws: WorkspaceView) -> bool:
        return ws.operation is Operation.NONE and (
            ws.op_seq,
            ws.desired_state,
            ws.observed_status,
            ws.health_status,
            ws.archive_key,
            ws.deleted_at,
            ws.error_info is None,
        ) == (
            workspace.op_seq,
            workspace.desired_state,
            workspace.observed_status,
            workspace.health_status,
            workspace.archive_key,
            workspace.deleted_at,
            workspace.error_info is None,
        )

    return condition
