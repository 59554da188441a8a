"""Archive orphans for the archive GC: owners of archives, and orphans since when."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Text,
    any_,
    bindparam,
    delete,
    exists,
    false,
    func,
    or_,
    type_coerce,
)
from sqlalchemy.dialects.postgresql import insert
from sqlmodel import col, select

from codehub.domain.generations import ChosenArchive
from codehub.domain.snapshots import Snapshots
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext
from codehub.store.db.records import FromJson, record
from codehub.store.db.session import Session
from codehub.store.db.statements import json_flag, json_text, rows_written, uuid_array
from codehub.store.schema.tables import ArchiveOrphan, Workspace
from codehub.store.schema.tables import archive_orphans as o
from codehub.store.workspaces.records import chosen_archive, home_context, made_snapshots


@dataclass(frozen=True)
class ArchiveOwner:
    """The columns of a workspace that archive retention reads."""

    id: UUID
    archive_key: str | None
    op_id: UUID | None
    operation: Operation
    observed_status: ObservedStatus
    health_status: HealthStatus
    is_terminal: bool
    deleted_at: datetime | None
    restore_from: ChosenArchive | None
    home: HomeContext
    snapshots: Snapshots = ()


_OWNER = record(
    ArchiveOwner,
    Workspace,
    is_terminal=func.coalesce(json_flag(col(Workspace.error_info), "is_terminal"), false()),
    restore_from=type_coerce(col(Workspace.restore_from), FromJson(chosen_archive)),
    home=type_coerce(col(Workspace.home_ctx), FromJson(home_context)),
    snapshots=type_coerce(col(Workspace.snapshots), FromJson(made_snapshots)),
)


async def load_owners(session: Session, ids: Collection[UUID]) -> dict[UUID, ArchiveOwner]:
    """Load the workspaces of these archives, by id.

    An id without a row is missing from the result: its archives must not be deleted.
    """
    statement = select(_OWNER).where(col(Workspace.id) == any_(uuid_array(ids)))
    return {owner.id: owner for owner in await session.exec(statement)}


async def copied_among(session: Session, paths: Collection[str]) -> frozenset[str]:
    """Which of these archives a copy of their workspace is restored from, or is about to be.

    A copy is created in one transaction that found its archive not to be an orphan (``orphans_among``): the GC deletes
    only what an earlier cycle recorded, and asks this before it deletes.
    """
    chosen = json_text(col(Workspace.restore_from), "archive_key")
    statement = select(col(Workspace.archive_key), chosen).where(
        col(Workspace.copy_of).is_not(None),
        col(Workspace.deleted_at).is_(None),
        or_(col(Workspace.archive_key) == any_(_texts(paths)), chosen == any_(_texts(paths))),
    )
    named = {key for row in await session.exec(statement) for key in row if key is not None}
    return frozenset(named.intersection(paths))


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


async def orphans_among(session: Session, paths: Collection[str]) -> frozenset[str]:
    """Which of these archives the GC is about to delete, as of its last cycle.

    An archive that is not among them when it is chosen, in one transaction, is safe: the GC deletes only what an
    earlier cycle recorded, and reads what is chosen before it deletes.
    """
    statement = select(col(ArchiveOrphan.path)).where(col(ArchiveOrphan.path) == any_(_texts(paths)))
    return frozenset(await session.exec(statement))


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
