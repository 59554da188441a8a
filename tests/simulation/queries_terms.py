"""Statements about terms of leadership: twins of ``codehub.store.cluster.terms``."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from codehub.coordinators.leadership import lock_key
from codehub.store.cluster.terms import LAST_ERROR, LONGEST_ERROR, TermRow
from tests.simulation.connection import Session
from tests.simulation.queries import as_stored

TERMS = "system_locks"
RECORD_EVERY = timedelta(seconds=1)


async def acquire_term(session: Session, lock_name: str, holder_id: str) -> TermRow:
    await session.statement("acquire_term", fits_fence=False)
    db, transaction = session.db, session.transaction
    await db.lock(transaction, (TERMS, lock_name))
    old: TermRow | None = db.get(transaction, TERMS, lock_name)
    epoch, ticked, told = (old.epoch + 1, old.last_tick_at, old.detail) if old else (1, None, {})
    detail = {key: value for key, value in told.items() if key != LAST_ERROR}
    term = TermRow(lock_name, holder_id, db.now(), epoch, ticked, detail)
    db.put(transaction, TERMS, lock_name, term)
    return term


async def hold_term(session: Session, lock_name: str, epoch: int, *, actor: str = "") -> datetime | None:
    del actor
    await session.statement("hold_term")
    return session.db.now() if await term_lasts(session, lock_name, epoch, lock=True) else None


async def term_lasts(session: Session, lock_name: str, epoch: int, *, lock: bool) -> bool:
    """``WHERE epoch = …``; with ``lock`` also ``FOR SHARE``, then judged again."""
    session.transaction.term = (lock_name, epoch)
    if not _is_epoch(session, lock_name, epoch):
        return False
    if lock:
        await session.db.lock(session.transaction, (TERMS, lock_name), "share")
    return _is_epoch(session, lock_name, epoch)


def _is_epoch(session: Session, lock_name: str, epoch: int) -> bool:
    term: TermRow | None = session.db.get(session.transaction, TERMS, lock_name)
    return term is not None and term.epoch == epoch


async def record_tick(session: Session, lock_name: str, *, detail: Mapping[str, Any]) -> None:
    detail = as_stored(detail)
    await session.statement("record_tick", writes=True)
    at = session.db.now()

    def is_due(term: TermRow) -> bool:
        return term.last_tick_at is None or term.last_tick_at < at - RECORD_EVERY or term.detail != detail

    await _update_term(
        session,
        lock_name,
        is_due,
        lambda term: replace(term, last_tick_at=session.db.now(), detail=detail),
    )


async def record_error(session: Session, lock_name: str, error: str) -> None:
    await session.statement("record_error", writes=True)
    told = {LAST_ERROR: error[:LONGEST_ERROR]}
    await _update_term(
        session, lock_name, lambda _: True, lambda term: replace(term, detail={**term.detail, **told})
    )


async def _update_term(
    session: Session,
    lock_name: str,
    condition: Callable[[TermRow], bool],
    change: Callable[[TermRow], TermRow],
) -> None:
    """``UPDATE system_locks``, by the same rules as ``update``."""
    found: TermRow | None = session.seen(TERMS, lock_name)
    if found is None or not condition(found):
        return
    await session.db.lock(session.transaction, (TERMS, lock_name))
    term: TermRow | None = session.db.get(session.transaction, TERMS, lock_name)
    if term is not None and condition(term):
        session.db.put(session.transaction, TERMS, lock_name, change(term))


async def read_terms(session: Session) -> dict[str, TermRow]:
    await session.statement("read_terms")
    found = session.db.scan(session.transaction, TERMS)
    return {
        term.lock_name: replace(term, is_held=session.db.is_advisory_held(lock_key(term.lock_name)))
        for term in found
    }


async def last_tick_at(session: Session, lock_name: str) -> datetime | None:
    await session.statement("last_tick_at")
    term: TermRow | None = session.db.get(session.transaction, TERMS, lock_name)
    return term.last_tick_at if term else None
