"""Statements that ask what there is to do: due work, limits, TTLs, orphan archives."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from codehub.domain.limits import holds_place
from codehub.domain.start_queue import Queued, StartQueue
from codehub.domain.states import DesiredState, Operation
from codehub.domain.tick_plan import Lane
from codehub.domain.ttl import kept_awake, may_sleep
from codehub.domain.workspace import WorkspaceView
from codehub.store.cluster.orphans import ArchiveOwner
from codehub.store.workspaces.due import DueWork
from codehub.store.workspaces.limits import LIMITS_LOCK_KEY, PlacesHeld
from codehub.store.workspaces.records import WorkspaceRecord
from tests.simulation import rows
from tests.simulation.connection import Session
from tests.simulation.database import Gone
from tests.simulation.queries import WORKSPACES, chosen_key, views

ORPHANS = "archive_orphans"
LIMITS_LOCKED = "limits locked"

# due


async def load_work(session: Session, *, limit: int, retried_before: datetime) -> DueWork:
    in_flight = await load_in_flight(session, retried_before=retried_before)
    rested = [
        ws
        for ws in views(session)
        if ws.deleted_at is not None
        or ((ws.last_retry_at is None or ws.last_retry_at <= retried_before) and _not_given_up(ws, session))
    ]
    by_age = sorted(rested, key=lambda ws: (rows.due_since(ws), ws.id))
    return DueWork(
        in_flight, {lane: [ws for ws in by_age if rows.due_lane(ws) is lane][:limit] for lane in Lane}
    )


def _not_given_up(ws: WorkspaceView, session: Session) -> bool:
    until = ws.home.archive_retry_at
    asked = ws.desired_state is not DesiredState.PENDING or ws.restore_from is not None
    return asked or until is None or until <= session.db.now()


async def load_in_flight(session: Session, *, retried_before: datetime) -> list[WorkspaceView]:
    await session.statement("load_in_flight")
    found = [
        ws
        for ws in views(session)
        if ws.operation is not Operation.NONE
        and (ws.last_retry_at is None or ws.last_retry_at <= retried_before)
    ]
    return sorted(found, key=lambda ws: ws.id)


# limits


async def lock_limits(session: Session) -> None:
    if session.transaction_flags.get(LIMITS_LOCKED):
        return
    await session.statement("lock_limits", fits_fence=False)
    await session.db.lock(session.transaction, ("advisory", LIMITS_LOCK_KEY))
    session.transaction_flags[LIMITS_LOCKED] = True


async def usage_for(session: Session, owner_id: UUID, *, actor: str, cause: str) -> PlacesHeld:
    del actor, cause
    await session.statement("usage_for")
    found = views(session)
    holders = [ws for ws in found if holds_place(ws)]
    return PlacesHeld(
        user=sum(1 for ws in holders if ws.owner_id == owner_id),
        total=len(holders),
        queued=sum(1 for ws in found if ws.is_queued),
    )


async def load_start_queue(session: Session) -> StartQueue:
    await session.statement("load_start_queue")
    return start_queue(views(session))


def start_queue(found: Sequence[WorkspaceView]) -> StartQueue:
    queued = sorted((ws for ws in found if ws.is_queued), key=lambda ws: ws.id)
    holders = [ws for ws in found if holds_place(ws)]
    return StartQueue(
        [Queued(ws.id, ws.owner_id, ws.queued_at) for ws in queued if ws.queued_at is not None],
        {ws.owner_id: sum(1 for each in holders if each.owner_id == ws.owner_id) for ws in queued},
        len(holders) if queued else 0,
    )


async def running_of(session: Session, owner_id: UUID) -> list[WorkspaceRecord]:
    await session.statement("running_of")
    found = session.db.scan(session.transaction, WORKSPACES)
    mine = [row for row in found if row.view.owner_id == owner_id and holds_place(row.view)]
    return [rows.record(row) for row in sorted(mine, key=lambda row: row.view.id)]


# ttl


async def load_standby_candidates(
    session: Session, *, now: datetime, after: UUID, limit: int
) -> list[WorkspaceView]:
    await session.statement("load_standby_candidates")
    found = [ws for ws in views(session) if may_sleep(ws) and ws.id > after and not kept_awake(ws, now=now)]
    return sorted(found, key=lambda ws: ws.id)[:limit]


async def load_archive_candidates(session: Session, *, now: datetime, limit: int) -> list[WorkspaceView]:
    await session.statement("load_archive_candidates")
    due = [(at, ws) for ws in views(session) if (at := rows.archive_due_at(ws)) is not None and at < now]
    return [ws for _, ws in sorted(due, key=lambda each: each[0])][:limit]


# orphans


async def load_owners(session: Session, ids: Collection[UUID]) -> dict[UUID, ArchiveOwner]:
    await session.statement("load_owners")
    return {
        ws.id: ArchiveOwner(
            ws.id,
            ws.archive_key,
            ws.op_id,
            ws.operation,
            ws.observed_status,
            ws.health_status,
            rows.is_terminal(ws),
            ws.deleted_at,
            ws.restore_from,
            ws.home,
            ws.snapshots,
        )
        for ws in views(session)
        if ws.id in ids
    }


async def copied_among(session: Session, paths: Collection[str]) -> frozenset[str]:
    await session.statement("copied_among")
    named: set[str | None] = set()
    for ws in views(session):
        if ws.copy_of is not None and ws.deleted_at is None:
            named |= {ws.archive_key, chosen_key(ws)}
    return frozenset(path for path in paths if path in named)


async def replace_seen(session: Session, paths: Collection[str]) -> Mapping[str, datetime]:
    await session.statement("replace_seen", fits_fence=False)
    db, transaction = session.db, session.transaction
    await _delete(session, [path for path, _ in db.scan(transaction, ORPHANS) if path not in paths])
    await session.statement("replace_seen")
    for path in sorted(set(paths)):
        if db.get(transaction, ORPHANS, path) is None or db.is_written_elsewhere(
            transaction, (ORPHANS, path)
        ):
            await db.lock(transaction, (ORPHANS, path))
            if db.get(transaction, ORPHANS, path) is None:
                db.put(transaction, ORPHANS, path, (path, db.now()))
    await session.statement("replace_seen")
    return dict(db.scan(transaction, ORPHANS))


async def orphans_among(session: Session, paths: Collection[str]) -> frozenset[str]:
    await session.statement("orphans_among")
    return frozenset(path for path in paths if session.db.get(session.transaction, ORPHANS, path) is not None)


async def forget(session: Session, paths: Collection[str]) -> int:
    await session.statement("forget", fits_fence=False)
    known = [path for path in sorted(set(paths)) if session.seen(ORPHANS, path) is not None]
    return await _delete(session, known)


async def _delete(session: Session, paths: Sequence[str]) -> int:
    """``DELETE FROM archive_orphans``: what another has deleted meanwhile does not count."""
    db, transaction = session.db, session.transaction
    deleted = 0
    for path in paths:
        await db.lock(transaction, (ORPHANS, path))
        if db.get(transaction, ORPHANS, path) is not None:
            db.put(transaction, ORPHANS, path, Gone.GONE)
            deleted += 1
    return deleted
