"""Statements about what people want and what the Observer saw."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.domain.errors import ErrorInfo
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.errors import NameTaken
from codehub.store.workspaces.observations import Observable, Observed
from codehub.store.workspaces.records import WorkspaceRecord
from tests.simulation import rows
from tests.simulation.connection import Session
from tests.simulation.queries import WORKSPACES, lock_in_order, update, views
from tests.simulation.rows import Row

# observations


async def load_watched(session: Session, *, after: UUID, limit: int) -> list[Observable]:
    await session.db.statement(session.transaction, "load_watched")
    watched = sorted(
        (ws for ws in views(session) if rows.watched(ws) and ws.id > after), key=lambda ws: ws.id
    )
    return [_observable(ws) for ws in watched[:limit]]


async def load_named(session: Session, ids: Collection[UUID]) -> list[Observable]:
    await session.db.statement(session.transaction, "load_named")
    return [_observable(ws) for ws in views(session) if ws.id in ids and rows.not_final(ws)]


async def write_observations(
    session: Session, observed: Sequence[Observed], *, observed_at: datetime
) -> list[UUID]:
    if not observed:
        return []
    await lock_in_order(session, [each.id for each in observed])
    await session.db.statement(session.transaction, "write_observations")
    changed = []
    for each in observed:
        row: Row | None = session.db.get(session.transaction, WORKSPACES, each.id)
        if row is not None and _is_news(row, each, observed_at):
            after = row.changed(
                now=session.db.now(),
                observed_status=each.observed_status,
                health_status=each.health_status,
                observed_at=observed_at,
            )
            session.db.put(session.transaction, WORKSPACES, each.id, after)
            changed.append(each.id)
    return changed


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
    await session.db.statement(session.transaction, "stamp_in_flight")
    stamped = [
        await update(
            session,
            each,
            lambda ws: (
                ws.operation is not Operation.NONE
                and (ws.observed_at is None or ws.observed_at < observed_at)
            ),
            lambda _: {"observed_at": observed_at},
        )
        for each in ids
    ]
    return sum(1 for each in stamped if each is not None)


async def stamp_coarse(
    session: Session, *, observed_at: datetime, older_than: datetime, limit: int = 5000
) -> int:
    await session.db.statement(session.transaction, "stamp_coarse")
    old = [
        ws
        for ws in views(session)
        if ws.observed_status is not ObservedStatus.DELETED
        and ws.observed_at is not None
        and ws.observed_at < older_than
    ]
    for ws in sorted(old, key=lambda ws: ws.observed_at or older_than)[:limit]:
        await update(session, ws.id, lambda _: True, lambda _: {"observed_at": observed_at})
    return len(old)


async def set_invariant_error(session: Session, workspace_id: UUID, error: ErrorInfo) -> bool:
    await session.db.statement(session.transaction, "set_invariant_error")
    after = await update(
        session,
        workspace_id,
        lambda ws: ws.error_info is None and ws.observed_status is not ObservedStatus.DELETED,
        lambda _: {"error_info": error},
    )
    return after is not None


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
    await session.db.statement(session.transaction, "find")
    row: Row | None = session.db.get(session.transaction, WORKSPACES, workspace_id)
    return rows.record(row) if row else None


async def find_locked(session: Session, workspace_id: UUID) -> WorkspaceRecord | None:
    await session.db.statement(session.transaction, "find_locked")
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
    standby_ttl_seconds: int = 300,
    archive_ttl_seconds: int = 86400,
    desired_state: DesiredState = DesiredState.PENDING,
) -> WorkspaceRecord:
    del description, memo
    await session.db.statement(session.transaction, "create")
    for other in session.db.scan(session.transaction, WORKSPACES):
        if (other.view.owner_id, other.name, other.view.deleted_at) == (owner_id, name, None):
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
    row = Row(view=view, name=name, created_at=at, updated_at=at)
    session.db.put(session.transaction, WORKSPACES, workspace_id, row)
    return rows.record(row)


async def set_desired(
    session: Session,
    workspace_id: UUID,
    desired_state: DesiredState,
    *,
    expected: DesiredState | None = None,
    touch: bool = True,
) -> WorkspaceRecord | None:
    await session.db.statement(session.transaction, "set_desired")
    columns: dict[str, Any] = {"desired_state": desired_state}
    if touch:
        columns["last_access_at"] = session.db.now()
    after = await update(
        session,
        workspace_id,
        lambda ws: ws.deleted_at is None and expected in (None, ws.desired_state),
        lambda _: columns,
    )
    return rows.record(after) if after is not None else None


async def mark_deleted(session: Session, workspace_id: UUID) -> bool:
    await session.db.statement(session.transaction, "mark_deleted")
    after = await update(
        session,
        workspace_id,
        lambda ws: ws.deleted_at is None,
        lambda _: {"deleted_at": session.db.now()},
    )
    return after is not None


async def touch(session: Session, ids: Collection[UUID]) -> int:
    await session.db.statement(session.transaction, "touch")
    touched = [
        await update(
            session,
            each,
            lambda ws: ws.observed_status is not ObservedStatus.DELETED,
            lambda _: {"last_access_at": session.db.now()},
        )
        for each in ids
    ]
    return sum(1 for each in touched if each is not None)


async def recover(session: Session, workspace_id: UUID, *, home: HomeContext) -> bool:
    await session.db.statement(session.transaction, "recover")
    after = await update(
        session,
        workspace_id,
        lambda ws: ws.error_info is not None and ws.deleted_at is None,
        lambda _: {"error_info": None, "error_count": 0, "home": home},
    )
    return after is not None


async def append_audit(session: Session, **_: Any) -> None:
    await session.db.statement(session.transaction, "audit")
