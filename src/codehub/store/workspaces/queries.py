"""Read workspaces for the API and the proxy. Nothing here writes.

Statements select records, not models, and are built once: with thousands of requests a second for one
workspace, objects of the model would cost more than the query (ADR 0033).
"""

from collections.abc import Collection
from datetime import datetime
from functools import cache
from uuid import UUID

from sqlalchemy import ARRAY, Integer, Text, Uuid, any_, bindparam, func, or_
from sqlmodel import col, select
from sqlmodel.sql.expression import SelectOfScalar

from codehub.store.db.session import Session
from codehub.store.db.statements import Page, json_flag, like_pattern
from codehub.store.schema.tables import NOT_GONE, Workspace
from codehub.store.workspaces.records import RECORD, WorkspaceRecord

_RECORD = select(RECORD)
_BY_ID = _RECORD.where(col(Workspace.id) == bindparam("workspace_id"))
_BY_IDS = _RECORD.where(col(Workspace.id) == any_(bindparam("ids", type_=ARRAY(Uuid()))))
_BY_ID_LOCKED = _BY_ID.with_for_update(key_share=True)


async def find(session: Session, workspace_id: UUID) -> WorkspaceRecord | None:
    """Find a workspace, DELETED ones included: the caller checks who may see it."""
    return (await session.exec(_BY_ID, {"workspace_id": workspace_id})).first()


async def find_locked(session: Session, workspace_id: UUID) -> WorkspaceRecord | None:
    """Find a workspace and lock its row until the transaction ends.

    The lock also ends when the process dies. Take ``limits.lock_limits`` first where both are needed: one
    order, no deadlock.
    """
    return (await session.exec(_BY_ID_LOCKED, {"workspace_id": workspace_id})).first()


async def find_many(session: Session, ids: Collection[UUID]) -> list[WorkspaceRecord]:
    return list(await session.exec(_BY_IDS, {"ids": list(ids)}))


async def find_named(session: Session, owner_id: UUID, name: str) -> WorkspaceRecord | None:
    """Find a live workspace of this owner by name.

    SSH clients may write a host's name in small letters: without one of exactly this name, the only one whose name
    differs in the case of letters.
    """
    statement = _RECORD.where(
        col(Workspace.owner_id) == owner_id,
        col(Workspace.deleted_at).is_(None),
        func.lower(col(Workspace.name)) == func.lower(name),
    )
    found = list(await session.exec(statement))
    exact = [each for each in found if each.name == name]
    return (exact or found)[0] if exact or len(found) == 1 else None


async def list_page(
    session: Session,
    *,
    owner_id: UUID | None = None,
    status: str | None = None,
    q: str | None = None,
    tag: str | None = None,
    cursor: UUID | None = None,
    limit: int = 50,
) -> Page[WorkspaceRecord]:
    """List workspaces, newest first.

    ``owner_id`` None: of all owners. DELETED ones only if ``status`` is ``deleted``. Ids are time-ordered, so
    the last id is the whole cursor: rows inserted or removed elsewhere in the list neither repeat nor skip
    any.
    """
    params: dict[str, object] = {
        "status": status,
        "owner_id": owner_id,
        "pattern": like_pattern(q) if q else None,
        "tag": tag,
        "cursor": cursor,
    }
    params = {name: value for name, value in params.items() if value is not None}
    statement = _page_statement(frozenset(params), gone=status == "deleted")
    items = await session.exec(statement, {**params, "most": limit + 1})
    more = len(items) > limit
    return Page(items[:limit], str(items[limit - 1].view.id) if more else None)


@cache  # Pays for: list of 50 by API
def _page_statement(params: frozenset[str], *, gone: bool) -> SelectOfScalar[WorkspaceRecord]:
    """Build the statement once per combination of filters.

    Building costs as much as running it.
    """
    statement = _RECORD.order_by(col(Workspace.id).desc()).limit(bindparam("most", type_=Integer()))
    if not gone:
        statement = statement.where(NOT_GONE)
    if "status" in params:
        statement = statement.where(col(Workspace.status) == bindparam("status"))
    if "owner_id" in params:
        statement = statement.where(col(Workspace.owner_id) == bindparam("owner_id"))
    if "pattern" in params:
        pattern = bindparam("pattern", type_=Text())
        statement = statement.where(
            or_(col(Workspace.name).ilike(pattern), col(Workspace.description).ilike(pattern))
        )
    if "tag" in params:
        statement = statement.where(bindparam("tag", type_=Text()) == any_(col(Workspace.tags)))
    if "cursor" in params:
        statement = statement.where(col(Workspace.id) < bindparam("cursor"))
    return statement


async def list_ids(session: Session, *, owner_id: UUID | None = None) -> list[UUID]:
    """List the ids of all workspaces that are not DELETED.

    For the first message of an event stream.
    """
    statement = select(col(Workspace.id)).where(NOT_GONE).order_by(col(Workspace.id))
    if owner_id is not None:
        statement = statement.where(col(Workspace.owner_id) == owner_id)
    return list(await session.exec(statement))


async def any_home(session: Session) -> bool:
    """Return whether any live workspace has a volume on record.

    For the start of a process only: it scans the table.
    """
    statement = (
        select(col(Workspace.id))
        .where(col(Workspace.deleted_at).is_(None), json_flag(col(Workspace.home_ctx), "volume"))
        .limit(1)
    )
    return (await session.exec(statement)).first() is not None


async def list_troubled(
    session: Session, *, began_before: datetime, limit: int = 500
) -> list[WorkspaceRecord]:
    """List live workspaces with an error, or with an operation that began before, newest first.

    For the operator's console: it scans the table.
    """
    statement = (
        _RECORD.where(
            col(Workspace.deleted_at).is_(None),
            or_(col(Workspace.error_info).is_not(None), col(Workspace.op_started_at) < began_before),
        )
        .order_by(col(Workspace.id).desc())
        .limit(limit)
    )
    return list(await session.exec(statement))


async def count_by_status(session: Session) -> dict[str, int]:
    statement = select(col(Workspace.status), func.count()).where(NOT_GONE).group_by(col(Workspace.status))
    return dict(await session.exec(statement))
