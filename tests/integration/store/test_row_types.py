"""What a statement gives is known to mypy, and is what comes: ``make check`` reads the one, this runs the other."""

from datetime import datetime
from typing import assert_type
from uuid import UUID

from sqlalchemy import DateTime, Integer, Text, delete, func, insert, text, union_all, update
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlmodel import col, select

from codehub.domain.states import Operation
from codehub.domain.workspace import WorkspaceView
from codehub.store.db.results import Rows, Written
from codehub.store.db.session import Session
from codehub.store.db.statements import clock
from codehub.store.db.typed_text import typed_text
from codehub.store.schema.tables import ArchiveOrphan, User, Workspace
from codehub.store.schema.tables import archive_orphans as o
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import RECORD, VIEW, WorkspaceRecord
from tests.integration.store.factory import make_workspace


async def test_selects(session: Session) -> None:
    workspace_id = await make_workspace(session)
    models = await session.exec(select(Workspace).where(col(Workspace.id) == workspace_id))
    assert_type(models, Rows[Workspace])
    assert_type(models.one(), Workspace)
    assert_type(models.one().operation, Operation)
    assert [type(each) for each in models] == [Workspace]

    pair = (await session.exec(select(Workspace.id, Workspace.version))).one()
    assert_type(pair, tuple[UUID, int])
    assert pair == (workspace_id, 1)

    scalar = (await session.exec(select(Workspace.id))).first()
    assert_type(scalar, UUID | None)
    assert scalar == workspace_id

    count = (await session.exec(select(func.count()).select_from(Workspace))).one()
    assert_type(count, int)
    assert count == 1

    at = (await session.exec(select(clock()))).one_or_none()
    assert_type(at, datetime | None)
    assert isinstance(at, datetime)

    joined = select(Workspace, col(User.username)).join(User, col(User.id) == col(Workspace.owner_id))
    found = (await session.exec(joined)).all()[0]
    assert_type(found, tuple[Workspace, str])
    assert isinstance(found[0], Workspace)
    assert isinstance(found[1], str)


async def test_records(session: Session) -> None:
    await make_workspace(session)
    record = (await session.exec(select(RECORD))).one()
    assert_type(record, WorkspaceRecord)
    assert isinstance(record, WorkspaceRecord)

    among = (await session.exec(select(VIEW, col(Workspace.due_lane)))).one()
    assert_type(among, tuple[WorkspaceView, str | None])
    assert [type(each) for each in among] == [WorkspaceView, type(None)]

    both = (await session.exec(union_all(select(VIEW), select(VIEW)))).all()
    assert [type(each) for (each,) in both] == [WorkspaceView, WorkspaceView]


async def test_writes(session: Session) -> None:
    written = await session.exec(insert(o).values(path="a"))
    assert_type(written, Written)
    assert written.rowcount == 1

    inserted = (
        await session.exec(
            postgresql_insert(o).values(path="b").on_conflict_do_nothing().returning(col(ArchiveOrphan.path))
        )
    ).one()
    assert_type(inserted, tuple[str])
    assert inserted == ("b",)

    await make_workspace(session)
    updated = (await session.exec(update(w).values(memo="m").returning(RECORD, col(Workspace.memo)))).one()
    assert_type(updated, tuple[WorkspaceRecord, str])
    assert (updated[0].memo, updated[1]) == ("m", "m")

    deleted = await session.exec(delete(o).returning(ArchiveOrphan))
    assert_type(deleted, Rows[tuple[ArchiveOrphan]])
    assert {orphan.path for (orphan,) in deleted} == {"a", "b"}


async def test_text(session: Session) -> None:
    nothing = await session.exec(text("SELECT 1"))
    assert_type(nothing, Written)
    assert not hasattr(nothing, "one")

    scalar = (await session.exec(typed_text("SELECT 1", Integer()))).one()
    assert_type(scalar, int)
    assert scalar == 1

    row = (
        await session.exec(
            typed_text("SELECT 'a', cast(:n AS int), now()", Text(), Integer(), DateTime(timezone=True)),
            {"n": 2},
        )
    ).one()
    assert_type(row, tuple[str, int, datetime])
    assert row[:2] == ("a", 2)
