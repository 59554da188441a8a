"""Statements to the driver and rows back; what becomes of a connection when something goes wrong on it."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
import pytest
from sqlalchemy import Executable, Integer, bindparam, insert, text, update
from sqlalchemy import select as select_columns
from sqlmodel import col, select

from codehub.domain.states import ObservedStatus, Operation
from codehub.store.db import pool as store_pool
from codehub.store.db import prepared as store_prepared
from codehub.store.db import session as store_session
from codehub.store.db.connections import create_pool
from codehub.store.db.pool import Pool
from codehub.store.db.records import record
from codehub.store.db.session import Session, Sessions
from codehub.store.db.typed_text import typed_text
from codehub.store.errors import DATABASE_FAILED, NoResult, is_outage
from codehub.store.schema.tables import ArchiveOrphan, User, Workspace
from codehub.store.schema.tables import archive_orphans as o
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import RECORD
from tests.integration.store.factory import make_workspace, until_somebody_waits_for_a_lock
from tests.support.broken_link import Break, BrokenLink, broken_link
from tests.support.postgres import PostgresServer
from tests.support.waiting import until


async def write(session: Session, *paths: str) -> None:
    for path in paths:
        await session.exec(insert(o).values(path=path))


async def commit(sessions: Sessions, *paths: str, then: Callable[[], object] = lambda: None) -> None:
    async with sessions.begin() as session:
        await write(session, *paths)
        then()


def stumble() -> None:
    raise KeyError("a mistake of ours")


async def paths(sessions: Sessions) -> set[str]:
    async with sessions() as session:
        return set(await session.exec(select(col(ArchiveOrphan.path))))


async def test_rows_are_read_as_the_types_say(session: Session) -> None:
    error = {"reason": "Mismatch", "list": [1, None, "é"]}
    workspace_id = await make_workspace(
        session, operation="STARTING", observed_status="STANDBY", error_info=error
    )
    statement = select_columns(
        col(Workspace.id),
        col(Workspace.operation),
        col(Workspace.previous_status),
        col(Workspace.error_info),
        col(Workspace.observed_at),
    )
    row = (await session.exec(statement.where(col(Workspace.id) == workspace_id))).one()
    found, operation, previous_status, error_info, observed_at = row
    assert found == workspace_id
    assert isinstance(found, UUID)
    assert operation is Operation.STARTING
    assert previous_status is None
    assert error_info == error
    assert isinstance(observed_at, datetime)
    assert (await session.exec(select(col(Workspace.operation)))).all() == [Operation.STARTING]


async def test_a_model_is_read_as_its_object_with_every_column(session: Session) -> None:
    workspace_id = await make_workspace(session, observed_status="STANDBY", error_info={"reason": "Mismatch"})
    ws = (await session.exec(select(Workspace))).one()
    assert isinstance(ws, Workspace)
    assert (ws.id, ws.observed_status, ws.error_info) == (
        workspace_id,
        ObservedStatus.STANDBY,
        {"reason": "Mismatch"},
    )
    assert ws.status == "standby"
    assert set(ws.model_dump()) == set(w.c.keys())
    assert ws == (await session.exec(select(Workspace))).one()
    # It is a value: nothing is tracked, and what is assigned would never be written.
    with pytest.raises(AttributeError):
        ws.memo = "edited"


async def test_a_model_stands_among_columns_and_after_a_write(session: Session) -> None:
    await make_workspace(session, memo="old")
    statement = select(Workspace, User, col(User.username))
    ws, user, username = (
        await session.exec(statement.join(User, col(User.id) == col(Workspace.owner_id)))
    ).one()
    assert (ws.memo, ws.owner_id, username) == ("old", user.id, user.username)
    [(written, memo)] = await session.exec(
        update(w).values(memo="new").returning(Workspace, col(Workspace.memo))
    )
    assert (written.id, written.memo, memo) == (ws.id, "new", "new")


async def test_a_column_that_comes_again_with_its_model_is_refused(session: Session) -> None:
    """SQLAlchemy sends it once: every value after it would be read as another column's."""
    await make_workspace(session)
    with pytest.raises(TypeError, match="before the model"):
        await session.exec(select(col(User.username), User))


async def test_records_are_read_with_their_inner_records(session: Session) -> None:
    workspace_id = await make_workspace(session, memo="seen", home_ctx={"volume": True})
    [(before, name)] = await session.exec(select(RECORD, col(Workspace.name)))
    assert (before.view.id, before.memo, before.name) == (workspace_id, "seen", name)
    assert (before.view.home.volume, before.view.error_info) == (True, None)
    [(after,)] = await session.exec(update(w).values(memo="written").returning(RECORD))
    assert (after.view.home, after.memo) == (before.view.home, "written")


@dataclass(frozen=True)
class Wrong:
    id: UUID
    username: int


def test_a_record_that_does_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Wrong.username is <class 'int'>"):
        record(Wrong, User)


async def test_values_come_with_the_statement_or_with_the_call(session: Session) -> None:
    one, other = [await make_workspace(session, observed_status="STANDBY") for _ in range(2)]
    statement = (
        update(w)
        .where(w.c.id == bindparam("which"), w.c.observed_status == ObservedStatus.STANDBY)
        .values(memo=bindparam("memo", "nothing said"), home_ctx={"volume": True})
        .returning(col(Workspace.memo), col(Workspace.home_ctx))
    )
    said = (await session.exec(statement, {"which": one, "memo": "said"})).one()
    unsaid = (await session.exec(statement, {"which": other})).one()
    assert (said, unsaid) == (("said", {"volume": True}), ("nothing said", {"volume": True}))
    with pytest.raises(KeyError, match="which"):
        await session.exec(statement)


async def test_a_write_tells_how_many_rows_it_met(session: Session) -> None:
    for number in range(3):
        assert (await session.exec(insert(o).values(path=f"{number}"))).rowcount == 1
    assert (await session.exec(update(o).where(o.c.path > "0").values(path=o.c.path + "!"))).rowcount == 2
    assert (await session.exec(update(o).where(o.c.path == "none").values(path="x"))).rowcount == 0


async def test_one_answer_is_neither_none_nor_two(session: Session) -> None:
    for count, statement in ((0, "SELECT 1 WHERE false"), (2, "SELECT generate_series(1, 2)")):
        with pytest.raises(NoResult, match=str(count)):
            (await session.exec(typed_text(statement, Integer()))).one()
    with pytest.raises(NoResult, match="2"):
        (await session.exec(typed_text("SELECT generate_series(1, 2)", Integer()))).one_or_none()
    assert (await session.exec(typed_text("SELECT 1 WHERE false", Integer()))).one_or_none() is None


async def test_a_constant_is_compiled_once_and_a_passing_statement_is_forgotten(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []
    original = store_prepared.Prepared

    def counted(statement: Executable) -> store_prepared.Prepared:
        compiled.append(type(statement))
        return original(statement)

    monkeypatch.setattr(store_prepared, "Prepared", counted)
    constant = select(col(ArchiveOrphan.path))
    for _ in range(3):
        await session.exec(constant)
    assert len(compiled) == 1
    passing = constant.where(col(ArchiveOrphan.path) == "x")
    gone = weakref.ref(passing)
    await session.exec(passing)
    del passing
    gc.collect()
    assert gone() is None


async def test_what_is_not_committed_is_rolled_back(session_factory: Sessions, pool: Pool) -> None:
    async with session_factory() as session:
        await write(session, "left alone")
    with pytest.raises(KeyError):
        await commit(session_factory, "stumbled", then=stumble)
    with pytest.raises(asyncpg.UniqueViolationError):
        await commit(session_factory, "twice", "twice")
    await commit(session_factory, "kept")
    assert await paths(session_factory) == {"kept"}
    assert pool.lent == 0


async def test_a_savepoint_keeps_the_transaction_usable(session_factory: Sessions) -> None:
    async def write_nested(*paths: str) -> None:
        async with session.begin_nested():
            await write(session, *paths)

    async with session_factory.begin() as session:
        await write(session, "before")
        with pytest.raises(asyncpg.UniqueViolationError):
            await write_nested("inside", "before")
        await write_nested("a second time")
        await write(session, "after")
    assert await paths(session_factory) == {"before", "a second time", "after"}


async def test_what_holds_within_a_transaction_ends_with_it(session: Session) -> None:
    for end in (session.commit, session.rollback):
        await session.exec(text("SELECT 1"))
        session.transaction_flags["held"] = True
        await end()
        assert session.transaction_flags == {}


async def test_a_cancelled_statement_takes_its_connection_along(
    session_factory: Sessions, pool: Pool, session: Session
) -> None:
    """Nobody else may get a connection on which a statement may still run, or its answer may still come."""
    async with session_factory.begin() as somebody:
        await write(somebody, "locked")
        backends: list[int] = []

        async def wait_for_the_lock() -> None:
            async with session_factory.begin() as other:
                backends.append((await other.exec(typed_text("SELECT pg_backend_pid()", Integer()))).one())
                await write(other, "half", "locked")

        waiting = asyncio.create_task(wait_for_the_lock())
        await until_somebody_waits_for_a_lock(session)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await paths(session_factory) == {"locked"}
    await session.rollback()

    async def has_ended() -> bool:
        found = await session.exec(
            typed_text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid", Integer()),
            {"pid": backends[0]},
        )
        await session.rollback()
        return found.one() == 0

    await until(has_ended, what="the server has ended the session of what was cancelled")
    assert pool.lent == 1, "only this test's own session"


async def test_a_session_ended_by_the_server_is_told_and_not_lent_again(
    session_factory: Sessions, pool: Pool
) -> None:
    async def write_and_be_ended() -> None:
        async with session_factory.begin() as session:
            await write(session, "lost")
            await session.exec(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(DATABASE_FAILED) as failure:
        await write_and_be_ended()
    assert is_outage(failure.value)
    assert pool.lent == 0
    assert await paths(session_factory) == set()


@pytest.fixture
async def link(postgres_server: PostgresServer) -> AsyncIterator[BrokenLink]:
    async with broken_link(postgres_server.directory / ".s.PGSQL.5432") as link:
        yield link


async def test_behind_a_link_that_stalls_a_rollback_waits_for_nobody(
    link: BrokenLink, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_session, "ROLLBACK_SECONDS", 0.05)
    name = database_url.partition("/test_")[2].partition("?")[0]
    pool = create_pool(f"postgresql://postgres@127.0.0.1:{link.port}/test_{name}")

    def stall_and_stumble() -> None:
        link.break_(Break.STALL)
        stumble()

    with pytest.raises(KeyError):
        await commit(Sessions(pool), "stalled", then=stall_and_stumble)
    link.heal()
    assert await paths(Sessions(pool)) == set()
    await pool.dispose()


async def test_a_pool_lends_no_more_than_it_has(database_url: str) -> None:
    pool = create_pool(database_url, pool_size=1, pool_timeout_seconds=0.05)
    async with Sessions(pool)() as first:
        await first.exec(text("SELECT 1"))
        with pytest.raises(TimeoutError):
            async with Sessions(pool)() as second:
                await second.exec(text("SELECT 1"))
    assert await paths(Sessions(pool)) == set()
    assert pool.lent == 0
    await pool.dispose()


async def test_an_old_connection_is_replaced(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pool = create_pool(database_url, pool_size=1)
    first = await pool.acquire()
    pool.release(first)
    assert await _next(pool) is first
    monkeypatch.setattr(store_pool, "REPLACE_AFTER_SECONDS", 0.0)
    assert await _next(pool) is not first
    assert first.is_closed()
    await pool.dispose()


async def _next(pool: Pool) -> store_session.Connection:
    connection = await pool.acquire()
    pool.release(connection)
    return connection
