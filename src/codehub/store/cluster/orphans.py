"""Archive orphans for the archive GC: owners of archives, and orphans since when."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, BindParameter, Text, any_, bindparam, delete, exists, func, select
from sqlalchemy.dialects.postgresql import insert

from codehub.domain.states import HealthStatus, ObservedStatus
from codehub.store.db.session import Session
from codehub.store.db.statements import rows_written, uuid_array
from codehub.store.schema.tables import archive_orphans as o
from codehub.store.schema.tables import workspaces as w


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


async def load_owners(session: Session, ids: Collection[UUID]) -> dict[UUID, ArchiveOwner]:
    """Load the workspaces of these archives, by id.

    An id without a row is missing from the result: its archives must not be deleted.
    """
    statement = select(
        w.c.id,
        w.c.archive_key,
        w.c.op_id,
        w.c.observed_status,
        w.c.health_status,
        func.coalesce(w.c.error_info["is_terminal"].as_boolean(), False),
        w.c.deleted_at,
    ).where(w.c.id == any_(uuid_array(ids)))
    return {row[0]: ArchiveOwner(*row) for row in await session.execute(statement)}


async def replace_seen(session: Session, paths: Collection[str]) -> Mapping[str, datetime]:
    """Record the orphans of this cycle; return since when each has been one.

    A path seen before keeps its first time. A path no longer named is protected or deleted, and its row is
    removed: if it becomes an orphan again, its delay starts anew.
    """
    found = func.unnest(_texts(paths)).table_valued("path").render_derived()
    # An anti-join, because ``path <> ALL (…)`` compares every row with every path.
    await session.execute(delete(o).where(~exists().where(found.c.path == o.c.path)))
    await session.execute(insert(o).from_select(["path"], select(found.c.path)).on_conflict_do_nothing())
    return {row.path: row.first_seen_at for row in await session.execute(select(o.c.path, o.c.first_seen_at))}


async def forget(session: Session, paths: Collection[str]) -> int:
    """Remove the rows of deleted archives."""
    return await rows_written(session, delete(o).where(o.c.path == any_(_texts(paths))))


async def list_all(session: Session, *, limit: int = 1000) -> list[tuple[str, datetime]]:
    """List orphans for the operator, longest known first."""
    statement = select(o.c.path, o.c.first_seen_at).order_by(o.c.first_seen_at, o.c.path).limit(limit)
    return [(row.path, row.first_seen_at) for row in await session.execute(statement)]


def _texts(values: Collection[str]) -> "BindParameter[Sequence[str]]":
    return bindparam(None, sorted(set(values)), type_=ARRAY(Text()))
