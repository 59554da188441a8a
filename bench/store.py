"""What the store's own layer costs in CPU: transactions, reading rows, lending connections.

``store-transaction``: one workspace read by its id in a transaction, by our session and by SQLModel's
``AsyncSession(bind=connection)``, on one connection each.

``store-rows``: a list of workspaces read as records (what the API and the coordinators read), as named tuples
that are converted afterwards, as objects of the model, and by SQLModel's own ``AsyncSession``.

``store-pool``: one small statement on a connection from our pool and from asyncpg's, by one task and by twenty.

CPU of this process alone, on a PostgreSQL started as the tests start it; the server's own CPU is the same for
all sides.
"""

import asyncio
import contextlib
import time
from collections import namedtuple
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import asyncpg
from sqlalchemy import Uuid, bindparam
from sqlalchemy import select as select_columns
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import col, select
from sqlmodel.ext.asyncio.session import AsyncSession
from tests.support.postgres import ensure_template, fresh_database, run_server

from bench.runner import Bar, Report, take_turns
from codehub.domain.errors import ErrorInfo
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.db.connections import asyncpg_dsn, create_pool
from codehub.store.db.pool import Pool
from codehub.store.db.session import Session, Sessions, SingleConnection
from codehub.store.schema.tables import Workspace
from codehub.store.workspaces.records import RECORD, VIEW, WorkspaceRecord

LISTS = (50, 500)
TASKS = 20
STATEMENTS = 2000

OURS, ASYNCPG, ASYNCPG_RESET = "ours", "asyncpg's, reset left out", "asyncpg's"
RECORDS, NAMED, MODELS, CONVERTED, ORM = (
    "records",
    "named tuples, converted",
    "models",
    "models, converted",
    "AsyncSession's models",
)

FILL = """
INSERT INTO workspaces (id, owner_id, name, image_ref, observed_status, home_ctx, op_id, observed_at)
SELECT gen_random_uuid(), $1, 'home-' || n, 'image', 'STANDBY', '{"volume": true, "sizes": {"files": 12}}',
  gen_random_uuid(), now()
FROM generate_series(1, $2) n
"""


async def transactions(_: Path, *, rounds: int) -> Report:
    """Measure the CPU of a transaction that reads one workspace."""
    metric = "µs a transaction"
    report = Report(
        "store-transaction",
        "CPU of a transaction that reads one workspace (µs; this process alone)",
        bars=[Bar(metric, RECORDS, ORM, at_most=0.6)],
    )
    by_record = select(RECORD).where(col(Workspace.id) == bindparam("id", type_=Uuid()))
    by_model = select(Workspace).where(col(Workspace.id) == bindparam("id", type_=Uuid()))
    async with _database() as url, contextlib.AsyncExitStack() as stack:
        given = {"id": await _fill(url, 1)}
        pool = create_pool(url, pool_size=1)
        stack.push_async_callback(pool.dispose)
        sessions = Sessions(SingleConnection(await pool.acquire()))
        engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"), pool_size=1)
        stack.push_async_callback(engine.dispose)
        connection = await stack.enter_async_context(engine.connect())

        async def record() -> None:
            async with sessions.begin() as session:
                assert (await session.exec(by_record, given)).one().name

        async def model() -> None:
            async with sessions.begin() as session:
                assert (await session.exec(by_model, given)).one().name

        async def orm() -> None:
            async with AsyncSession(bind=connection) as session, session.begin():
                assert (await session.exec(by_model, params=given)).one().name

        async def measure(transaction: Callable[[], Awaitable[object]]) -> dict[str, float]:
            return {metric: await _cpu(transaction, tasks=1)}

        sides = {
            name: (lambda each=each: measure(each))
            for name, each in ((RECORDS, record), (MODELS, model), (ORM, orm))
        }
        await take_turns(report, sides, rounds=rounds)
    return report


async def rows(_: Path, *, rounds: int) -> Report:
    """Measure the CPU of a row read in a list, by how it is read."""
    report = Report(
        "store-rows",
        "CPU of reading one row of a list of workspaces (µs; this process alone)",
        bars=[Bar(f"µs a row, {count} rows", RECORDS, NAMED, at_most=1.1) for count in LISTS],
    )
    async with _database() as url, contextlib.AsyncExitStack() as stack:
        await _fill(url, max(LISTS))
        pool = create_pool(url, pool_size=1)
        stack.push_async_callback(pool.dispose)
        engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"), pool_size=1)
        stack.push_async_callback(engine.dispose)
        ours, theirs = Session(pool), AsyncSession(engine)
        await stack.enter_async_context(ours)
        await stack.enter_async_context(theirs)
        readers = _readers(ours, theirs)
        for read in readers.values():
            assert len(await read(1)) == 1
        sides = {name: (lambda read=read: _read_lists(read)) for name, read in readers.items()}
        await take_turns(report, sides, rounds=rounds)
    return report


async def pools(_: Path, *, rounds: int) -> Report:
    """Measure the CPU of a connection lent for one statement."""
    alone, together = "µs a statement, one task", f"µs a statement, {TASKS} tasks"
    report = Report(
        "store-pool",
        "CPU of a connection lent for one statement (µs; this process alone)",
        bars=[Bar(metric, OURS, ASYNCPG, at_most=0.9) for metric in (alone, together)],
    )
    async with _database() as url, contextlib.AsyncExitStack() as stack:
        pool = create_pool(url, pool_size=TASKS)
        stack.push_async_callback(pool.dispose)
        lenders: dict[str, Callable[[], Awaitable[object]]] = {OURS: lambda: _on_ours(pool)}
        for name, reset in ((ASYNCPG, _leave), (ASYNCPG_RESET, None)):
            other = await stack.enter_async_context(
                asyncpg.create_pool(asyncpg_dsn(url), min_size=1, max_size=TASKS, reset=reset)
            )
            lenders[name] = lambda other=other: _on_theirs(other)

        async def measure(lend: Callable[[], Awaitable[object]]) -> dict[str, float]:
            return {alone: await _cpu(lend, tasks=1), together: await _cpu(lend, tasks=TASKS)}

        sides = {name: (lambda lend=lend: measure(lend)) for name, lend in lenders.items()}
        await take_turns(report, sides, rounds=rounds)
    return report


async def _on_ours(pool: Pool) -> None:
    connection = await pool.acquire()
    try:
        await connection.fetchval("SELECT 1")
    finally:
        pool.release(connection)


async def _on_theirs(pool: Any) -> None:
    connection = await pool.acquire(timeout=10)  # ours has a timeout, too
    try:
        await connection.fetchval("SELECT 1")
    finally:
        await pool.release(connection)


async def _leave(_: object) -> None:
    """Reset nothing: a session ends its transaction, and sets nothing that outlives it."""


async def _cpu(lend: Callable[[], Awaitable[object]], *, tasks: int) -> float:
    async def work() -> None:
        for _ in range(STATEMENTS // tasks):
            await lend()

    await lend()
    began = time.process_time()
    await asyncio.gather(*(work() for _ in range(tasks)))
    return (time.process_time() - began) / STATEMENTS * 1e6


async def _read_lists(read: Callable[[int], Awaitable[Sequence[object]]]) -> dict[str, float]:
    values = {}
    for count in LISTS:
        turns = 2 * LISTS[-1] // count
        began = time.process_time()
        for _ in range(turns):
            await read(count)
        values[f"µs a row, {count} rows"] = (time.process_time() - began) / turns / count * 1e6
    return values


def _readers(ours: Session, theirs: AsyncSession) -> dict[str, Callable[[int], Awaitable[Sequence[object]]]]:
    listed = {count: select(RECORD).limit(count) for count in (1, *LISTS)}
    columns = [*_columns(VIEW), *RECORD.parts[1:]]
    plain = {count: select_columns(*columns).limit(count) for count in (1, *LISTS)}
    models = {count: select(Workspace).limit(count) for count in (1, *LISTS)}
    make = namedtuple("Row", [column.key for column in columns])._make  # type: ignore[misc]

    async def named(count: int) -> Sequence[object]:
        return [_from_tuple(make(row)) for row in await ours.exec(plain[count])]

    async def converted(count: int) -> Sequence[object]:
        return [_from_model(ws) for ws in await ours.exec(models[count])]

    async def by_session(count: int) -> Sequence[object]:
        found = (await theirs.exec(models[count])).all()
        theirs.expunge_all()  # each list is read anew
        return found

    return {
        RECORDS: lambda count: ours.exec(listed[count]),
        NAMED: named,
        MODELS: lambda count: ours.exec(models[count]),
        CONVERTED: converted,
        ORM: by_session,
    }


def _columns(record: Any) -> list[Any]:
    """The columns a record reads, without its conversions."""
    given = {"home": col(Workspace.home_ctx), "error_info": col(Workspace.error_info)}
    return [given.get(part.key, part) for part in record.parts]


def _from_tuple(row: Any) -> WorkspaceRecord:
    error, home = 15, 18  # their places in a WorkspaceView
    view = WorkspaceView(
        *row[:error],
        ErrorInfo.from_json(row[error]) if row[error] is not None else None,
        *row[error + 1 : home],
        HomeContext.from_json(row[home]),
        *row[home + 1 : 25],
    )
    return WorkspaceRecord(view, *row[25:])


def _from_model(ws: Workspace) -> WorkspaceRecord:
    view = WorkspaceView(
        ws.id,
        ws.owner_id,
        ws.desired_state,
        ws.observed_status,
        ws.health_status,
        ws.operation,
        ws.last_access_at,
        ws.image_ref,
        ws.observed_at,
        ws.op_id,
        ws.op_seq,
        ws.op_started_at,
        ws.op_acted_at,
        ws.archive_key,
        ws.error_count,
        ErrorInfo.from_json(ws.error_info) if ws.error_info is not None else None,
        ws.last_retry_at,
        ws.previous_status,
        HomeContext.from_json(ws.home_ctx),
        ws.standby_ttl_seconds,
        ws.archive_ttl_seconds,
        ws.awake_until,
        ws.active_until,
        ws.deleted_at,
        ws.version,
    )
    return WorkspaceRecord(view, ws.name, ws.description, ws.memo, ws.created_at, ws.updated_at, ws.status)


@contextlib.asynccontextmanager
async def _database() -> AsyncIterator[str]:
    with run_server() as server:
        template = await ensure_template(server)
        async with fresh_database(server, template=template) as url:
            yield url


async def _fill(url: str, count: int) -> UUID:
    """Make workspaces; return the id of one."""
    connection = await asyncpg.connect(asyncpg_dsn(url))
    try:
        owner = uuid4()
        await connection.execute(
            "INSERT INTO users (id, username, password_hash) VALUES ($1, 'ann', 'x')", owner
        )
        await connection.execute(FILL, owner, count)
        return UUID(str(await connection.fetchval("SELECT id FROM workspaces LIMIT 1")))
    finally:
        await connection.close()
