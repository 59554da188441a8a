"""What the archive GC needs: who protects which archives, and since when an archive has been nobody's."""

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
    """A workspace, as far as the retention of its archives asks."""

    id: UUID
    archive_key: str | None
    op_id: UUID | None
    observed_status: ObservedStatus
    health_status: HealthStatus
    is_terminal: bool
    deleted_at: datetime | None


async def load_owners(session: Session, ids: Collection[UUID]) -> dict[UUID, ArchiveOwner]:
    """The workspaces of these archives. An id that is missing has no row here: hands off its archives."""
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
    """These are the orphans of this cycle; returns since when each has been one.

    A path seen before keeps its first time. One that is not named any more is protected or gone, and
    forgotten: should it turn up again, its delay starts anew.
    """
    found = func.unnest(_texts(paths)).table_valued("path").render_derived()
    # An anti-join, because ``path <> ALL (…)`` compares every row with every path.
    await session.execute(delete(o).where(~exists().where(found.c.path == o.c.path)))
    await session.execute(insert(o).from_select(["path"], select(found.c.path)).on_conflict_do_nothing())
    return {row.path: row.first_seen_at for row in await session.execute(select(o.c.path, o.c.first_seen_at))}


async def forget(session: Session, paths: Collection[str]) -> int:
    """These have been deleted."""
    return await rows_written(session, delete(o).where(o.c.path == any_(_texts(paths))))


async def list_all(session: Session, *, limit: int = 1000) -> list[tuple[str, datetime]]:
    """For the operator, longest known first."""
    statement = select(o.c.path, o.c.first_seen_at).order_by(o.c.first_seen_at, o.c.path).limit(limit)
    return [(row.path, row.first_seen_at) for row in await session.execute(statement)]


def _texts(values: Collection[str]) -> "BindParameter[Sequence[str]]":
    return bindparam(None, sorted(set(values)), type_=ARRAY(Text()))
