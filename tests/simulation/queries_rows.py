"""Statements about what people want and what the Observer saw."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.domain.busy import Busy
from codehub.domain.copies import CopySource
from codehub.domain.errors import ErrorInfo
from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import Snapshots, WantedSnapshot
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.errors import NameTaken
from codehub.store.workspaces.intents import DETAILS
from codehub.store.workspaces.observations import Observable, Observed
from codehub.store.workspaces.records import WorkspaceRecord
from tests.simulation import rows
from tests.simulation.connection import Session
from tests.simulation.queries import WORKSPACES, Change, as_stored, lock_in_order, update, views
from tests.simulation.rows import Row


def not_gone(ws: WorkspaceView) -> bool:
    return ws.observed_status is not ObservedStatus.DELETED


# observations


async def load_watched(session: Session, *, after: UUID, limit: int) -> list[Observable]:
    await session.statement("load_watched")
    watched = sorted(
        (ws for ws in views(session) if rows.watched(ws) and ws.id > after), key=lambda ws: ws.id
    )
    return [_observable(ws) for ws in watched[:limit]]


async def load_named(session: Session, ids: Collection[UUID]) -> list[Observable]:
    await session.statement("load_named")
    return [_observable(ws) for ws in views(session) if ws.id in ids and rows.not_final(ws)]


async def write_observations(
    session: Session, observed: Sequence[Observed], *, observed_at: datetime
) -> list[UUID]:
    if not observed:
        return []
    await lock_in_order(session, [each.id for each in observed])
    await session.statement("write_observations", writes=True)
    written = await update(session, *(_observation(each, observed_at) for each in observed))
    return [row.view.id for row in written]


def _observation(seen: Observed, observed_at: datetime) -> Change:
    return Change(
        seen.id,
        lambda row: _is_news(row, seen, observed_at),
        lambda _: {
            "observed_status": seen.observed_status,
            "health_status": seen.health_status,
            "observed_at": observed_at,
        },
    )


def _is_news(row: Row, seen: Observed, observed_at: datetime) -> bool:
    ws = row.view
    return (
        (ws.observed_status, ws.health_status) != (seen.observed_status, seen.health_status)
        and (ws.observed_at is None or ws.observed_at <= observed_at)
        and (
            ws.health_status is HealthStatus.OK
            or seen.health_status is HealthStatus.ERROR
            or row.updated_at <= observed_at
        )
        and rows.not_final(ws)
        and (seen.observed_status is not ObservedStatus.DELETED or ws.deleted_at is not None)
    )


async def stamp_in_flight(session: Session, ids: Collection[UUID], *, observed_at: datetime) -> int:
    await lock_in_order(session, ids)
    await session.statement("stamp_in_flight", writes=True)

    def is_older(row: Row) -> bool:
        ws = row.view
        in_flight = ws.operation is not Operation.NONE
        return in_flight and (ws.observed_at is None or ws.observed_at < observed_at)

    stamped = [Change(each, is_older, lambda _: {"observed_at": observed_at}) for each in ids]
    return len(await update(session, *stamped))


async def stamp_coarse(
    session: Session, *, observed_at: datetime, older_than: datetime, limit: int = 5000
) -> int:
    await session.statement("stamp_coarse", writes=True)
    db, transaction = session.db, session.transaction
    old = [
        (ws.observed_at, ws.id)
        for ws in views(session)
        if not_gone(ws) and ws.observed_at is not None and ws.observed_at < older_than
    ]
    stamped: list[Change] = []
    for _, each in sorted(old):
        if len(stamped) < limit and db.try_lock(transaction, (WORKSPACES, each)):
            stamped.append(Change(each, lambda _: True, lambda _: {"observed_at": observed_at}))
    return len(await update(session, *stamped))


async def set_invariant_error(session: Session, workspace_id: UUID, error: ErrorInfo) -> bool:
    await session.statement("set_invariant_error", writes=True)
    change = Change(
        workspace_id,
        lambda row: row.view.error_info is None and not_gone(row.view),
        lambda _: {"error_info": error},
    )
    return bool(await update(session, change))


def _observable(ws: WorkspaceView) -> Observable:
    return Observable(
        [ws.id],
        ws.desired_state,
        ws.observed_status,
        ws.health_status,
        ws.operation,
        ws.deleted_at,
        ws.error_info is not None,
        rows.is_terminal(ws),
    )


# workspaces and intents


async def find(session: Session, workspace_id: UUID) -> WorkspaceRecord | None:
    await session.statement("find")
    row: Row | None = session.db.get(session.transaction, WORKSPACES, workspace_id)
    return rows.record(row) if row else None


async def find_locked(session: Session, workspace_id: UUID) -> WorkspaceRecord | None:
    await session.statement("find_locked")
    await session.db.lock(session.transaction, (WORKSPACES, workspace_id))
    row: Row | None = session.db.get(session.transaction, WORKSPACES, workspace_id)
    return rows.record(row) if row else None


async def create(
    session: Session,
    *,
    workspace_id: UUID,
    owner_id: UUID,
    name: str,
    image_ref: str,
    description: str = "",
    memo: str = "",
    tags: Sequence[str] = (),
    standby_ttl_seconds: int = 300,
    archive_ttl_seconds: int = 86400,
    desired_state: DesiredState = DesiredState.PENDING,
) -> WorkspaceRecord:
    await session.statement("create", fits_fence=False)
    if await _is_name_taken(session, owner_id, name):
        raise NameTaken(name)
    at = session.db.now()
    view = WorkspaceView(
        id=workspace_id,
        owner_id=owner_id,
        desired_state=desired_state,
        observed_status=ObservedStatus.PENDING,
        health_status=HealthStatus.OK,
        operation=Operation.NONE,
        last_access_at=at,
        image_ref=image_ref,
        standby_ttl_seconds=standby_ttl_seconds,
        archive_ttl_seconds=archive_ttl_seconds,
    )
    row = Row(
        view=view,
        name=name,
        created_at=at,
        updated_at=at,
        description=description,
        memo=memo,
        tags=list(tags),
    )
    await session.db.lock(session.transaction, (WORKSPACES, workspace_id))
    session.db.put(session.transaction, WORKSPACES, workspace_id, row)
    return rows.record(row)


async def _is_name_taken(session: Session, owner_id: UUID, name: str, *, but: UUID | None = None) -> bool:
    """What the unique index says, once every transaction that has written a rival is over."""
    db, transaction = session.db, session.transaction

    def has_name(row: object) -> bool:
        return isinstance(row, Row) and row.view.id != but and _is_named(row, owner_id, name)

    while rivals := [key for key, *rows in db.written_elsewhere(transaction) if any(map(has_name, rows))]:
        await db.until_decided(transaction, rivals[0])
    return any(map(has_name, db.scan(transaction, WORKSPACES)))


def _is_named(row: Row, owner_id: UUID, name: str) -> bool:
    return (row.view.owner_id, row.name, row.view.deleted_at) == (owner_id, name, None)


async def update_details(
    session: Session, workspace_id: UUID, **details: str | int
) -> WorkspaceRecord | None:
    if unknown := details.keys() - DETAILS:
        raise ValueError(f"not a detail of a workspace: {', '.join(sorted(unknown))}")
    await session.statement("update_details", writes=True)
    row: Row | None = session.seen(WORKSPACES, workspace_id)
    name = details.get("name")
    if row is not None and isinstance(name, str) and name != row.name:
        await session.db.lock(session.transaction, (WORKSPACES, workspace_id))
        if await _is_name_taken(session, row.view.owner_id, name, but=workspace_id):
            raise NameTaken(name)
    written = await update(session, Change(workspace_id, lambda _: True, lambda _: details))
    return rows.record(written[0]) if written else None


async def set_desired(
    session: Session,
    workspace_id: UUID,
    desired_state: DesiredState,
    *,
    expected: DesiredState | None = None,
    touch: bool = True,
) -> WorkspaceRecord | None:
    await session.statement("set_desired", writes=True)
    columns: dict[str, Any] = {"desired_state": desired_state, "queued_at": None}
    if touch:
        columns["last_access_at"] = session.db.now()
    change = Change(
        workspace_id,
        lambda row: row.view.deleted_at is None and expected in (None, row.view.desired_state),
        lambda _: columns,
    )
    written = await update(session, change)
    return rows.record(written[0]) if written else None


async def mark_deleted(session: Session, workspace_id: UUID) -> bool:
    await session.statement("mark_deleted", writes=True)
    change = Change(workspace_id, _is_live, lambda _: {"deleted_at": session.db.now(), "queued_at": None})
    return bool(await update(session, change))


async def set_awake_until(session: Session, workspace_id: UUID, until: datetime | None) -> bool:
    await session.statement("set_awake_until", writes=True)
    change = Change(
        workspace_id, _is_live, lambda _: {"awake_until": until, "last_access_at": session.db.now()}
    )
    return bool(await update(session, change))


async def set_busy(session: Session, workspace_id: UUID, busy: Busy | None) -> bool:
    await session.statement("set_busy", writes=True)
    return bool(await update(session, Change(workspace_id, _is_live, lambda _: {"busy": busy})))


async def set_restore_from(session: Session, workspace_id: UUID, chosen: ChosenArchive | None) -> bool:
    await session.statement("set_restore_from", writes=True)
    change = Change(
        workspace_id, _is_live, lambda _: {"restore_from": chosen, "last_access_at": session.db.now()}
    )
    return bool(await update(session, change))


async def set_snapshots(
    session: Session, workspace_id: UUID, *, wanted: WantedSnapshot | None, made: Snapshots
) -> bool:
    await session.statement("set_snapshots", writes=True)
    change = Change(workspace_id, _is_live, lambda _: {"snapshot_as": wanted, "snapshots": made})
    return bool(await update(session, change))


async def set_copy_of(session: Session, workspace_id: UUID, source: CopySource) -> bool:
    await session.statement("set_copy_of", writes=True)
    change = Change(workspace_id, lambda row: row.view.copy_of is None, lambda _: {"copy_of": source})
    return bool(await update(session, change))


async def set_queued(session: Session, workspace_id: UUID, *, queued: bool) -> bool:
    await session.statement("set_queued", writes=True)

    def columns(ws: WorkspaceView) -> dict[str, Any]:
        if not queued:
            return {"queued_at": None}
        now = session.db.now()
        return {"queued_at": ws.queued_at or now, "last_access_at": now}

    return bool(await update(session, Change(workspace_id, _is_live, columns)))


def _is_live(row: Row) -> bool:
    return row.view.deleted_at is None


async def touch(session: Session, ids: Collection[UUID]) -> int:
    await session.statement("touch", writes=True)
    touched = [
        Change(each, lambda row: not_gone(row.view), lambda _: {"last_access_at": session.db.now()})
        for each in ids
    ]
    return len(await update(session, *touched))


async def recover(session: Session, workspace_id: UUID, *, home: HomeContext) -> bool:
    await session.statement("recover", writes=True)
    change = Change(
        workspace_id,
        lambda row: row.view.error_info is not None and _is_live(row),
        lambda _: {"error_info": None, "error_count": 0, "home": home},
    )
    return bool(await update(session, change))


async def append_audit(
    session: Session,
    *,
    actor: str,
    action: str,
    subject: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> None:
    del actor, action, subject
    as_stored(detail or {})
    await session.statement("audit", fits_fence=False)
