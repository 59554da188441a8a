"""Write the API's columns: what people want. Called by ``services`` (ADR 0001).

Nothing else calls it. The service decides whether a change is allowed, under the row's lock
(``queries.find_locked``); these functions only write.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

import asyncpg
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Uuid,
    any_,
    bindparam,
    case,
    func,
    literal,
    null,
    or_,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.sql.dml import ReturningUpdate
from sqlmodel import col

from codehub.domain.busy import Busy
from codehub.domain.copies import CopySource
from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import Snapshots, WantedSnapshot
from codehub.domain.states import DesiredState
from codehub.domain.workspace import HomeContext
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Session
from codehub.store.db.statements import clock, json_text, rows_written, uuid_array
from codehub.store.errors import NameTaken
from codehub.store.schema.tables import NOT_GONE, Workspace, desired_state_type, jsonb
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import RECORD, WorkspaceRecord

DETAILS = frozenset(
    {
        "name",
        "description",
        "memo",
        "tags",
        "pinned",
        "image_ref",
        "standby_ttl_seconds",
        "archive_ttl_seconds",
    }
)

_CREATE = (
    insert(w)
    .values(
        {
            name: bindparam(name)
            for name in ("id", "owner_id", "image_ref", "desired_state", *sorted(DETAILS - {"image_ref"}))
        }
    )
    .on_conflict_do_nothing(index_elements=["owner_id", "name"], index_where=text("deleted_at IS NULL"))
    .returning(RECORD)
)


USED_NOW = {"last_access_at": clock()}
"""Values for a write that counts as use, beside its own."""

OUT_OF_QUEUE: dict[str, object] = {"queued_at": None}
"""Values for a write that ends the wait for a running place: another desired state, or deletion."""

RETURNED = {"restore_from": None}
"""Values for the Reconciler's switch to a chosen archive: the intent is met by the same statement."""

_IS_CHOSEN = json_text(col(Workspace.restore_from), "archive_key")


def is_chosen(archive_key: str | None) -> ColumnElement[bool]:
    """Whether exactly this archive (or none) is chosen to be returned to."""
    return _IS_CHOSEN.is_not_distinct_from(archive_key)


def giving_up_return(archive_key: str) -> dict[str, object]:
    """Values for a write that gives the return to this archive up; another intent, made meanwhile, stays."""
    return {"restore_from": case((is_chosen(archive_key), null()), else_=col(Workspace.restore_from))}


_WANTED_ID = json_text(col(Workspace.snapshot_as), "id")


def is_wanted(snapshot_id: UUID | None) -> ColumnElement[bool]:
    """Whether exactly this snapshot (or none) is wanted."""
    return _WANTED_ID.is_not_distinct_from(str(snapshot_id) if snapshot_id is not None else None)


def giving_up_snapshot(snapshot_id: UUID) -> dict[str, object]:
    """Values for a write that gives this snapshot up; another one, asked for meanwhile, stays."""
    return {"snapshot_as": case((is_wanted(snapshot_id), null()), else_=col(Workspace.snapshot_as))}


def taking_snapshot(archive_key: str, home: HomeContext) -> dict[str, object]:
    """Values for the commit of an archive: it is the snapshot that is wanted, if one is.

    In SQL, of the row as it is now: a name that was given meanwhile counts, and a list that services changed is
    appended to.
    """
    made = {
        "archive_key": archive_key,
        "sha256": home.archive_sha256,
        "created_at": home.archived_at.isoformat() if home.archived_at else None,
        "sizes": dict(home.sizes),
    }
    wanted = col(Workspace.snapshot_as)
    taken = func.jsonb_build_array(wanted.op("||")(literal(made, jsonb)))
    known = func.coalesce(col(Workspace.snapshots), literal([], jsonb))
    return {
        "snapshots": case((wanted.is_(None), col(Workspace.snapshots)), else_=known.op("||")(taken)),
        "snapshot_as": null(),
    }


def _desired_state_update(*, expecting: bool, touching: bool) -> ReturningUpdate[WorkspaceRecord]:
    statement = (
        update(w)
        .where(col(Workspace.id) == bindparam("workspace_id"), col(Workspace.deleted_at).is_(None))
        .values(desired_state=bindparam("desired", type_=desired_state_type), **OUT_OF_QUEUE)
    )
    if expecting:
        statement = statement.where(
            col(Workspace.desired_state) == bindparam("expected", type_=desired_state_type)
        )
    if touching:
        statement = statement.values(USED_NOW)
    return statement.returning(RECORD)


_SET_DESIRED_STATE = {
    (expecting, touching): _desired_state_update(expecting=expecting, touching=touching)
    for expecting in (True, False)
    for touching in (True, False)
}
_TOUCH = (
    update(w)
    .where(col(Workspace.id) == any_(bindparam("ids", type_=ARRAY(Uuid()))), NOT_GONE)
    .values(USED_NOW)
)


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
    """Create a workspace. Raises ``NameTaken``; the transaction stays usable."""
    params = {
        "id": workspace_id,
        "owner_id": owner_id,
        "name": name,
        "image_ref": image_ref,
        "description": description,
        "memo": memo,
        "tags": list(tags),
        "pinned": False,
        "standby_ttl_seconds": standby_ttl_seconds,
        "archive_ttl_seconds": archive_ttl_seconds,
        "desired_state": desired_state,
    }
    row = (await session.exec(_CREATE, params)).first()
    if row is None:
        raise _name_is_taken(name)
    (created,) = row
    return created


async def update_details(
    session: Session, workspace_id: UUID, **details: str | int | list[str]
) -> WorkspaceRecord | None:
    """Change name, description, memo, tags, pin, image or TTLs; None: no such workspace.

    Raises ``NameTaken``; the transaction stays usable.
    """
    unknown = details.keys() - DETAILS
    if unknown:
        raise ValueError(f"not a detail of a workspace: {', '.join(sorted(unknown))}")
    statement = update(w).where(col(Workspace.id) == workspace_id).values(**details).returning(RECORD)
    try:
        # A savepoint: the caller's transaction survives the refusal.
        async with session.begin_nested():
            row = (await session.exec(statement)).first()
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "workspaces_live_name":
            raise _name_is_taken(str(details.get("name", ""))) from error
        raise
    return row[0] if row is not None else None


async def set_desired(
    session: Session,
    workspace_id: UUID,
    desired_state: DesiredState,
    *,
    expected: DesiredState | None = None,
    touch: bool = True,
) -> WorkspaceRecord | None:
    """Set the desired state. With ``expected``: compare-and-set, None if it lost.

    ``touch``: a person asked, which counts as use. Deleted workspaces match no row: None.
    """
    params: dict[str, object] = {"workspace_id": workspace_id, "desired": desired_state}
    if expected is not None:
        params["expected"] = expected
    row = (await session.exec(_SET_DESIRED_STATE[expected is not None, touch], params)).first()
    return row[0] if row is not None else None


async def mark_deleted(session: Session, workspace_id: UUID) -> bool:
    """Mark a workspace deleted. Idempotent; False: it was marked before."""
    statement = (
        update(w)
        .where(col(Workspace.id) == workspace_id, col(Workspace.deleted_at).is_(None))
        .values(deleted_at=clock(), **OUT_OF_QUEUE)
    )
    return await rows_written(session, statement) == 1


async def set_awake_until(session: Session, workspace_id: UUID, until: datetime | None) -> bool:
    """Set or clear ``awake_until``, which counts as use. False: no such workspace."""
    statement = (
        update(w)
        .where(col(Workspace.id) == workspace_id, col(Workspace.deleted_at).is_(None))
        .values(awake_until=until, last_access_at=clock())
    )
    return await rows_written(session, statement) == 1


async def set_restore_from(session: Session, workspace_id: UUID, chosen: ChosenArchive | None) -> bool:
    """Choose the archive to return to, or cancel that; counts as use. False: no such workspace."""
    statement = (
        update(w)
        .where(col(Workspace.id) == workspace_id, col(Workspace.deleted_at).is_(None))
        .values(restore_from=chosen.as_json() if chosen is not None else None)
        .values(USED_NOW)
    )
    return await rows_written(session, statement) == 1


async def set_snapshots(
    session: Session, workspace_id: UUID, *, wanted: WantedSnapshot | None, made: Snapshots
) -> bool:
    """Write the snapshot that is wanted and those that are kept. False: no such workspace.

    The caller has read both under the row's lock: the commit of an archive, which appends to them, waits for it.
    """
    statement = (
        update(w)
        .where(col(Workspace.id) == workspace_id, col(Workspace.deleted_at).is_(None))
        .values(
            snapshot_as=wanted.as_json() if wanted is not None else None,
            snapshots=[each.as_json() for each in made] or None,
        )
    )
    return await rows_written(session, statement) == 1


async def set_copy_of(session: Session, workspace_id: UUID, source: CopySource) -> bool:
    """Write what a new copy begins with. False: no such workspace, or it is a copy already."""
    statement = (
        update(w)
        .where(col(Workspace.id) == workspace_id, col(Workspace.copy_of).is_(None))
        .values(copy_of=source.as_json())
    )
    return await rows_written(session, statement) == 1


async def extend_active_until(session: Session, ids: Collection[UUID], until: datetime) -> int:
    """Extend ``active_until``, for proxies that cannot reach Redis.

    Never shortened: several proxies may extend it.
    """
    await lock_in_order(session, ids)
    statement = (
        update(w)
        .where(
            col(Workspace.id) == any_(uuid_array(ids)),
            col(Workspace.deleted_at).is_(None),
            or_(col(Workspace.active_until).is_(None), col(Workspace.active_until) < until),
        )
        .values(active_until=until)
    )
    return await rows_written(session, statement)


async def set_busy(session: Session, workspace_id: UUID, busy: Busy | None) -> bool:
    """Set or clear ``busy``, which is no use by a person. False: no such workspace."""
    statement = (
        update(w)
        .where(col(Workspace.id) == workspace_id, col(Workspace.deleted_at).is_(None))
        .values(busy=busy.as_json() if busy is not None else None)
    )
    return await rows_written(session, statement) == 1


async def set_queued(session: Session, workspace_id: UUID, *, queued: bool) -> bool:
    """Put a workspace into the start queue, which counts as use, or take it out.

    False: no such workspace. Called again it keeps the time it came at.
    """
    statement = update(w).where(col(Workspace.id) == workspace_id, col(Workspace.deleted_at).is_(None))
    if queued:
        since = func.coalesce(col(Workspace.queued_at), clock())
        statement = statement.values(queued_at=since).values(USED_NOW)
    else:
        statement = statement.values(**OUT_OF_QUEUE)
    return await rows_written(session, statement) == 1


async def touch(session: Session, ids: Collection[UUID]) -> int:
    """Set ``last_access_at`` to now.

    For a completed operation, or a container that left RUNNING unasked. The caller has written these rows in
    this transaction, so they are locked, in order (``row_locks``).
    """
    return await rows_written(session, _TOUCH, {"ids": list(ids)})


async def recover(session: Session, workspace_id: UUID, *, home: HomeContext) -> bool:
    """Clear the error of a workspace. False: there was none.

    ``home`` comes from ``domain/home.at_recovery`` of the row read under its lock. Nothing else changes: the
    next step is planned from what is observed.
    """
    statement = (
        update(w)
        .where(
            col(Workspace.id) == workspace_id,
            col(Workspace.error_info).is_not(None),
            col(Workspace.deleted_at).is_(None),
        )
        .values(error_info=None, error_count=0, home_ctx=home.as_json())
    )
    return await rows_written(session, statement) == 1


def _name_is_taken(name: str) -> NameTaken:
    return NameTaken(f"a workspace named {name!r} exists already")
