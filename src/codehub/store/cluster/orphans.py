"""Archive orphans for the archive GC: owners of archives, and orphans since when."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, BindParameter, Text, any_, bindparam, delete, exists, false, func
from sqlalchemy.dialects.postgresql import insert
from sqlmodel import col, select

from codehub.domain.states import HealthStatus, ObservedStatus
from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import json_flag, rows_written, uuid_array
from codehub.store.schema.tables import ArchiveOrphan, Workspace
from codehub.store.schema.tables import archive_orphans as o


@dataclass(frozen=True)
class ArchiveOwner:
    """The columns of a workspace that archive retention reads."""

    id: UUID
    archive_key: str | None
    op_id: UUID | None
    observed_status: ObservedStatus
    health_status: HealthStatus
    is_terminal: bool
    deleted_at: datetime | None


_OWNER = record(
    ArchiveOwner,
    Workspace,
    is_terminal=func.coalesce(json_flag(col(Workspace.error_info), "is_terminal"), false()),
)


async def load_owners(session: Session, ids: Collection[UUID]) -> dict[UUID, ArchiveOwner]:
    """Load the workspaces of these archives, by id.

    An id without a row is missing from the result: its archives must not be deleted.
    """
    statement = select(_OWNER).where(col(Workspace.id) == any_(uuid_array(ids)))
    return {owner.id: owner for owner in await session.exec(statement)}


async def replace_seen(session: Session, paths: Collection[str]) -> Mapping[str, datetime]:
    """Record the orphans of this cycle; return since when each has been one.

    A path seen before keeps its first time. A path no longer named is protected or deleted, and its row is
    removed: if it becomes an orphan again, its delay starts anew.
    """
    found = func.unnest(_texts(paths)).table_valued("path").render_derived()
    # An anti-join, because ``path <> ALL (…)`` compares every row with every path.
    await session.exec(delete(o).where(~exists().where(found.c.path == col(ArchiveOrphan.path))))
    await session.exec(insert(o).from_select(["path"], select(found.c.path)).on_conflict_do_nothing())
    return dict(await session.exec(select(col(ArchiveOrphan.path), col(ArchiveOrphan.first_seen_at))))


async def forget(session: Session, paths: Collection[str]) -> int:
    """Remove the rows of deleted archives."""
    return await rows_written(session, delete(o).where(col(ArchiveOrphan.path) == any_(_texts(paths))))


async def list_all(session: Session, *, limit: int = 1000) -> list[tuple[str, datetime]]:
    """List orphans for the operator, longest known first."""
    statement = (
        select(col(ArchiveOrphan.path), col(ArchiveOrphan.first_seen_at))
        .order_by(col(ArchiveOrphan.first_seen_at), col(ArchiveOrphan.path))
        .limit(limit)
    )
    return list(await session.exec(statement))


def _texts(values: Collection[str]) -> "BindParameter[Sequence[str]]":
    return bindparam(None, sorted(set(values)), type_=ARRAY(Text()))
