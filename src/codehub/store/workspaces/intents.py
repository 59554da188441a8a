"""The API's columns: what people want. Called by the services layer alone (contract 3).

Whether a change is allowed is the service's question, asked under the row's lock
(``workspaces.find_locked``); these functions write what they are told.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy import ARRAY, Executable, Uuid, any_, bindparam, func, or_, text, update
from sqlalchemy.dialects.postgresql import insert

from codehub.domain.states import DesiredState
from codehub.domain.workspace import HomeContext
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Session
from codehub.store.db.statements import rows_written, uuid_array
from codehub.store.errors import NameTaken
from codehub.store.schema.tables import NOT_GONE, desired_state_type
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import RECORD_COLUMNS, WorkspaceRecord, to_record

DETAILS = frozenset(
    {"name", "description", "memo", "image_ref", "standby_ttl_seconds", "archive_ttl_seconds"}
)

_CREATE = (
    insert(w)
    .values(
        {
            name: bindparam(name)
            for name in ("id", "owner_id", "image_ref", "desired_state", *sorted(DETAILS - {"image_ref"}))
        }
    )
    .on_conflict_do_nothing(index_elements=[w.c.owner_id, w.c.name], index_where=text("deleted_at IS NULL"))
    .returning(*RECORD_COLUMNS)
)


USED_NOW = {w.c.last_access_at: func.clock_timestamp()}
"""For whoever writes the row for another reason, in which it counts as used."""


def _desired_state_update(*, expecting: bool, touching: bool) -> Executable:
    statement = (
        update(w)
        .where(w.c.id == bindparam("workspace_id"), w.c.deleted_at.is_(None))
        .values(desired_state=bindparam("desired", type_=desired_state_type))
    )
    if expecting:
        statement = statement.where(w.c.desired_state == bindparam("expected", type_=desired_state_type))
    if touching:
        statement = statement.values(USED_NOW)
    return statement.returning(*RECORD_COLUMNS)


_SET_DESIRED_STATE = {
    (expecting, touching): _desired_state_update(expecting=expecting, touching=touching)
    for expecting in (True, False)
    for touching in (True, False)
}
_TOUCH = update(w).where(w.c.id == any_(bindparam("ids", type_=ARRAY(Uuid()))), NOT_GONE).values(USED_NOW)


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
    """A new workspace. Raises ``NameTaken``; the transaction is still usable then."""
    params = {
        "id": workspace_id,
        "owner_id": owner_id,
        "name": name,
        "image_ref": image_ref,
        "description": description,
        "memo": memo,
        "standby_ttl_seconds": standby_ttl_seconds,
        "archive_ttl_seconds": archive_ttl_seconds,
        "desired_state": desired_state,
    }
    row = (await session.execute(_CREATE, params)).first()
    if row is None:
        raise _name_is_taken(name)
    return to_record(row)


async def update_details(
    session: Session, workspace_id: UUID, **details: str | int
) -> WorkspaceRecord | None:
    """Change name, description, memo, image or TTLs; None: no such workspace. Raises ``NameTaken``."""
    unknown = details.keys() - DETAILS
    if unknown:
        raise ValueError(f"not a detail of a workspace: {', '.join(sorted(unknown))}")
    statement = update(w).where(w.c.id == workspace_id).values(**details).returning(*RECORD_COLUMNS)
    try:
        # A savepoint: the caller's transaction survives the refusal.
        async with session.begin_nested():
            row = (await session.execute(statement)).first()
    except asyncpg.UniqueViolationError as error:
        if error.constraint_name == "workspaces_live_name":
            raise _name_is_taken(str(details.get("name", ""))) from error
        raise
    return to_record(row) if row is not None else None


async def set_desired(
    session: Session,
    workspace_id: UUID,
    desired_state: DesiredState,
    *,
    expected: DesiredState | None = None,
    touch: bool = True,
) -> WorkspaceRecord | None:
    """Set the desired state. With ``expected``, only if that is still it: the first to come wins, and None
    is what another one gets.

    ``touch``: a person asked, which counts as use. Deleted workspaces cannot be changed.
    """
    params: dict[str, Any] = {"workspace_id": workspace_id, "desired": desired_state}
    if expected is not None:
        params["expected"] = expected
    row = (await session.execute(_SET_DESIRED_STATE[expected is not None, touch], params)).first()
    return to_record(row) if row is not None else None


async def mark_deleted(session: Session, workspace_id: UUID) -> bool:
    """A person's last word. False: it had been said before."""
    statement = (
        update(w)
        .where(w.c.id == workspace_id, w.c.deleted_at.is_(None))
        .values(deleted_at=func.clock_timestamp())
    )
    return await rows_written(session, statement) == 1


async def set_awake_until(session: Session, workspace_id: UUID, until: datetime | None) -> bool:
    statement = (
        update(w)
        .where(w.c.id == workspace_id, w.c.deleted_at.is_(None))
        .values(awake_until=until, last_access_at=func.clock_timestamp())
    )
    return await rows_written(session, statement) == 1


async def extend_active_until(session: Session, ids: Collection[UUID], until: datetime) -> int:
    """A proxy that cannot reach Redis says "in use". Never shortened: several proxies may say so."""
    await lock_in_order(session, ids)
    statement = (
        update(w)
        .where(
            w.c.id == any_(uuid_array(ids)),
            w.c.deleted_at.is_(None),
            or_(w.c.active_until.is_(None), w.c.active_until < until),
        )
        .values(active_until=until)
    )
    return await rows_written(session, statement)


async def touch(session: Session, ids: Collection[UUID]) -> int:
    """These count as used now: an operation completed, or a container left RUNNING unasked.

    The caller has written them in this transaction, so they are locked, in order (``row_locks``).
    """
    return await rows_written(session, _TOUCH, {"ids": list(ids)})


async def recover(session: Session, workspace_id: UUID, *, home: HomeContext) -> bool:
    """Lift an error. False: there was none.

    ``home`` is what ``domain/home.at_recovery`` says of the row read under its lock. Nothing else changes:
    what follows is planned from what is observed.
    """
    statement = (
        update(w)
        .where(w.c.id == workspace_id, w.c.error_info.is_not(None), w.c.deleted_at.is_(None))
        .values(error_info=None, error_count=0, home_ctx=home.as_json())
    )
    return await rows_written(session, statement) == 1


def _name_is_taken(name: str) -> NameTaken:
    return NameTaken(f"a workspace named {name!r} exists already")
