"""Read workspaces for the API and the proxy. Nothing here writes.

Statements are Core selects over columns, built once: with thousands of requests a second for one workspace
the ORM's bookkeeping would cost more than the query.
"""

from collections.abc import Collection
from functools import cache
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Integer, Select, Text, Uuid, any_, bindparam, func, or_, select

from codehub.store.db.session import Session
from codehub.store.db.statements import Page, like_pattern
from codehub.store.schema.tables import NOT_GONE
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import RECORD_COLUMNS, WorkspaceRecord, to_record

_RECORD = select(*RECORD_COLUMNS)
_BY_ID = _RECORD.where(w.c.id == bindparam("workspace_id"))
_BY_IDS = _RECORD.where(w.c.id == any_(bindparam("ids", type_=ARRAY(Uuid()))))
_BY_ID_LOCKED = _BY_ID.with_for_update(key_share=True)


async def find(session: Session, workspace_id: UUID) -> WorkspaceRecord | None:
    """Find a workspace, DELETED ones included: the caller checks who may see it."""
    row = (await session.execute(_BY_ID, {"workspace_id": workspace_id})).first()
    return to_record(row) if row is not None else None


async def find_locked(session: Session, workspace_id: UUID) -> WorkspaceRecord | None:
    """Find a workspace and lock its row until the transaction ends.

    The lock also ends when the process dies. Take ``limits.lock_limits`` first where both are needed: one
    order, no deadlock.
    """
    row = (await session.execute(_BY_ID_LOCKED, {"workspace_id": workspace_id})).first()
    return to_record(row) if row is not None else None


async def find_many(session: Session, ids: Collection[UUID]) -> list[WorkspaceRecord]:
    return [to_record(row) for row in (await session.execute(_BY_IDS, {"ids": list(ids)})).all()]


async def list_page(
    session: Session,
    *,
    owner_id: UUID | None = None,
    status: str | None = None,
    q: str | None = None,
    cursor: UUID | None = None,
    limit: int = 50,
) -> Page[WorkspaceRecord]:
    """List workspaces, newest first.

    ``owner_id`` None: of all owners. DELETED ones only if ``status`` is ``deleted``. Ids are time-ordered, so
    the last id is the whole cursor: rows inserted or removed elsewhere in the list neither repeat nor skip
    any.
    """
    params: dict[str, Any] = {
        "status": status,
        "owner_id": owner_id,
        "pattern": like_pattern(q) if q else None,
        "cursor": cursor,
    }
    params = {name: value for name, value in params.items() if value is not None}
    statement = _page_statement(frozenset(params), gone=status == "deleted")
    rows = (await session.execute(statement, {**params, "most": limit + 1})).all()
    items = [to_record(row) for row in rows]
    more = len(items) > limit
    return Page(items[:limit], str(items[limit - 1].view.id) if more else None)


@cache
def _page_statement(params: frozenset[str], *, gone: bool) -> Select[*tuple[Any, ...]]:
    """Build the statement once per combination of filters.

    Building costs as much as running it.
    """
    statement = _RECORD.order_by(w.c.id.desc()).limit(bindparam("most", type_=Integer()))
    if not gone:
        statement = statement.where(NOT_GONE)
    if "status" in params:
        statement = statement.where(w.c.status == bindparam("status"))
    if "owner_id" in params:
        statement = statement.where(w.c.owner_id == bindparam("owner_id"))
    if "pattern" in params:
        pattern = bindparam("pattern", type_=Text())
        statement = statement.where(or_(w.c.name.ilike(pattern), w.c.description.ilike(pattern)))
    if "cursor" in params:
        statement = statement.where(w.c.id < bindparam("cursor"))
    return statement


async def list_ids(session: Session, *, owner_id: UUID | None = None) -> list[UUID]:
    """List the ids of all workspaces that are not DELETED.

    For the first message of an event stream.
    """
    statement = select(w.c.id).where(NOT_GONE).order_by(w.c.id)
    if owner_id is not None:
        statement = statement.where(w.c.owner_id == owner_id)
    return list((await session.execute(statement)).scalars())


async def any_home(session: Session) -> bool:
    """Return whether any live workspace has a volume on record.

    For the start of a process only: it scans the table.
    """
    statement = select(w.c.id).where(w.c.deleted_at.is_(None), w.c.home_ctx["volume"].as_boolean()).limit(1)
    return (await session.execute(statement)).first() is not None


async def count_by_status(session: Session) -> dict[str, int]:
    statement = select(w.c.status, func.count()).where(NOT_GONE).group_by(w.c.status)
    return {row[0]: row[1] for row in await session.execute(statement)}
