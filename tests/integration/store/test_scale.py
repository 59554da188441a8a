"""With 100 000 workspaces each hot question reads the rows it returns, and no others.

The statements are caught as the functions send them and explained with the same parameters. What is
asserted is what PostgreSQL did (rows read, rows thrown away), never how long it took.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Integer, select, text

from codehub.store.accounts import sessions
from codehub.store.db import statements
from codehub.store.db.connections import create_pool, one_connection_engine
from codehub.store.db.fencing import Fence, FencedSession
from codehub.store.db.session import Connection, Session, SingleConnection
from codehub.store.db.typed_text import typed_text
from codehub.store.schema.tables import users
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces import due, limits, observations, queries, ttl
from tests.support import postgres
from tests.support.postgres import PostgresServer

LOCK = "coordinator:wc"
TOTAL = 100_000
OWNERS = 500

# Like a big installation on a quiet day: nearly everything is archived or gone.
FILL = f"""
INSERT INTO workspaces (id, owner_id, name, image_ref, desired_state, observed_status, operation, op_id,
                        op_started_at, archive_key, home_ctx, error_info, health_status, deleted_at,
                        last_access_at, observed_at)
SELECT lpad(to_hex(i), 32, '0')::uuid,
       lpad(to_hex(i % {OWNERS}), 32, '0')::uuid,
       'ws-' || i, 'image',
       CASE WHEN i < 150 OR kind = 'in flight' THEN 'RUNNING'
            WHEN kind IN ('sleeping', 'forgotten') THEN 'STANDBY' ELSE 'PENDING' END::desired_state,
       CASE WHEN i < 100 THEN 'RUNNING' WHEN i < 1260 THEN 'STANDBY' WHEN kind = 'gone' THEN 'DELETED'
            ELSE 'PENDING' END::observed_status,
       CASE WHEN kind = 'in flight' THEN 'STARTING' ELSE 'NONE' END::operation,
       gen_random_uuid(), now(),
       CASE WHEN kind = 'archived' THEN 'key-' || i END,
       CASE WHEN kind = 'archived' THEN jsonb_build_object('restore_marker', 'key-' || i)
            WHEN i < 1260 THEN jsonb_build_object('volume', true) END,
       CASE WHEN kind = 'broken' THEN jsonb_build_object(
            'reason', 'Timeout', 'message', 'too slow', 'is_terminal', true, 'operation', 'NONE',
            'error_count', 0, 'context', jsonb_build_object(), 'occurred_at', now()) END,
       CASE WHEN kind = 'broken' THEN 'ERROR' ELSE 'OK' END::health_status,
       CASE WHEN kind = 'gone' THEN now() END,
       CASE WHEN kind = 'forgotten' THEN now() - interval '2 days' ELSE now() END,
       now() - i * interval '1 millisecond'
  FROM (SELECT i, CASE WHEN i < 100 THEN 'running' WHEN i < 150 THEN 'starting' WHEN i < 200 THEN 'archiving'
                       WHEN i < 230 THEN 'in flight' WHEN i < 1230 THEN 'sleeping'
                       WHEN i < 1260 THEN 'forgotten' WHEN i < 1270 THEN 'broken'
                       WHEN i < 6270 THEN 'gone' ELSE 'archived' END AS kind
          FROM generate_series(0, {TOTAL - 1}) AS i) AS numbered
"""
PEOPLE = f"""
INSERT INTO users (id, username, password_hash)
SELECT lpad(to_hex(i), 32, '0')::uuid, 'user-' || i, 'x' FROM generate_series(0, {OWNERS - 1}) AS i
"""

TERM = f"INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('{LOCK}', 'somebody', 1)"


async def fill(url: str) -> None:
    engine = one_connection_engine(url, application_name="test")
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE workspaces DISABLE TRIGGER USER"))
        await connection.execute(text(PEOPLE))
        await connection.execute(text(FILL))
        await connection.execute(text(TERM))
        await connection.execute(text("ALTER TABLE workspaces ENABLE TRIGGER USER"))
    async with engine.connect() as connection:
        autocommit = await connection.execution_options(isolation_level="AUTOCOMMIT")
        await autocommit.execute(text("VACUUM ANALYZE"))
    await engine.dispose()


@pytest.fixture(scope="module")
def full_database_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """One database for all tests here: nothing is ever committed to it after it was filled."""
    runner = asyncio.Runner()
    database = postgres.fresh_database(postgres_server, template=postgres_template)
    url = runner.run(database.__aenter__())
    runner.run(fill(url))
    yield url
    runner.run(database.__aexit__(None, None, None))
    runner.close()


@dataclass
class Caught:
    """The statements sent while catching, with their parameters."""

    statements: list[tuple[str, Any]]

    async def explain(self, session: "Asking") -> list[dict[str, Any]]:
        """Every scan of ``workspaces`` in their plans."""
        scans: list[dict[str, Any]] = []
        await asyncio.sleep(0)  # the driver tells of a query when the loop comes round
        for statement, parameters in list(self.statements):
            plan = await session.connection.fetchval(
                f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *parameters
            )
            _collect(json.loads(plan)[0]["Plan"], scans)
        return scans


def _collect(node: dict[str, Any], scans: list[dict[str, Any]]) -> None:
    if node.get("Relation Name") == "workspaces" and "Scan" in node["Node Type"]:
        scans.append(node)
    for child in node.get("Plans", ()):
        _collect(child, scans)


class Asking(Session):
    """A session on one connection, and the time of its first question."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(SingleConnection(connection))
        self.connection = connection
        self.now = datetime.min.replace(tzinfo=UTC)

    def fenced(self) -> FencedSession:
        """How coordinators ask."""
        return FencedSession(SingleConnection(self.connection), Fence(LOCK, epoch=1))


@asynccontextmanager
async def asking(url: str, **settings: str) -> AsyncIterator[Asking]:
    pool = create_pool(url, pool_size=1, server_settings=settings)
    connection = await pool.acquire()
    async with Asking(connection) as session:
        session.now = await statements.now(session)
        yield session
    pool.release(connection)
    await pool.dispose()


@asynccontextmanager
async def catching(url: str) -> AsyncIterator[tuple[Asking, Caught]]:
    caught = Caught([])

    def catch(sent: Any) -> None:
        if not sent.query.startswith(("EXPLAIN", "BEGIN", "ROLLBACK")):
            caught.statements.append((sent.query, sent.args))

    async with asking(url) as session:
        session.connection.add_query_logger(catch)
        yield session, caught
        session.connection.remove_query_logger(catch)


def number(i: int) -> UUID:
    return UUID(int=i)


Question = Callable[[Asking], Awaitable[Any]]
QUESTIONS: dict[str, tuple[int, Question]] = {
    "what is in flight and what needs a step": (
        30 + 50 + 50,
        lambda s: due.load_work(s.fenced(), limit=200, retried_before=s.now),
    ),
    "the oldest of what needs a step": (
        30 + 20 + 20,
        lambda s: due.load_work(s.fenced(), limit=20, retried_before=s.now),
    ),
    "what is in flight": (30, lambda s: due.load_in_flight(s.fenced(), retried_before=s.now)),
    "who may be put to sleep": (
        99,  # row 0 has the one id that is on no page
        lambda s: ttl.load_standby_candidates(s.fenced(), now=s.now, after=ttl.FIRST_PAGE, limit=200),
    ),
    "whose archive TTL is over": (30, lambda s: ttl.load_archive_candidates(s, now=s.now, limit=200)),
    "how many run": (180, lambda s: limits.usage(s, number(7))),
    "what runs of one owner": (1, lambda s: limits.running_of(s, number(7))),
    "what the Observer compares": (
        1000,
        lambda s: observations.load_watched(s.fenced(), after=observations.FIRST_PAGE, limit=1000),
    ),
    "the rest of what the Observer compares": (
        1269 - 1000,
        lambda s: observations.load_watched(s.fenced(), after=number(1000), limit=1000),
    ),
    "what the Observer saw at rest": (1, lambda s: observations.load_named(s.fenced(), [number(50_000)])),
    "one workspace": (1, lambda s: queries.find(s, number(77_777))),
    "the first page of everybody's": (51, queries.list_page),
    "a later page of everybody's": (51, lambda s: queries.list_page(s, cursor=number(60_000))),
    "a page of one owner's": (51, lambda s: queries.list_page(s, owner_id=number(7))),
    "a page of everybody's in error": (10, lambda s: queries.list_page(s, status="error")),
}


@pytest.mark.parametrize("question", QUESTIONS)
async def test_a_hot_question_reads_only_what_it_returns(question: str, full_database_url: str) -> None:
    expected, ask = QUESTIONS[question]
    async with catching(full_database_url) as (session, caught):
        await ask(session)
        scans = await caught.explain(session)

    assert scans
    assert [scan["Node Type"] for scan in scans if scan["Node Type"] == "Seq Scan"] == []
    read = sum(scan["Actual Rows"] * scan["Actual Loops"] for scan in scans)
    thrown_away = sum(
        scan.get("Rows Removed by Filter", 0) + scan.get("Rows Removed by Index Recheck", 0) for scan in scans
    )
    assert read == expected
    assert thrown_away <= 1


async def test_a_tick_that_stamps_reads_only_what_it_stamps(full_database_url: str) -> None:
    async with catching(full_database_url) as (session, caught):
        now = session.now
        await observations.stamp_coarse(
            session, observed_at=now, older_than=now - timedelta(seconds=60), limit=500
        )
        await session.rollback()
        scans = await caught.explain(session)
        await session.rollback()
    assert all(scan["Node Type"] != "Seq Scan" for scan in scans)
    assert sum(scan.get("Rows Removed by Filter", 0) for scan in scans) == 0


async def test_prepared_statements_keep_their_indexes(full_database_url: str) -> None:
    """asyncpg prepares; after some executions PostgreSQL may plan without knowing the parameters.

    The conditions of partial indexes are therefore constants in the statements. Forced to plan that
    way, PostgreSQL still touches no table from end to end.
    """
    async with asking(full_database_url, plan_cache_mode="force_generic_plan") as session:
        for question, (_, ask) in QUESTIONS.items():
            before = await sequential_scans(session)
            await ask(session)
            await session.commit()
            assert await sequential_scans(session) == before, question


async def sequential_scans(session: Session) -> int:
    await session.exec(text("SELECT pg_stat_force_next_flush()"))
    await session.commit()
    count = await session.exec(
        typed_text("SELECT seq_scan FROM pg_stat_user_tables WHERE relname = 'workspaces'", Integer())
    )
    return count.one()


async def test_the_database_is_as_big_as_promised(full_database_url: str) -> None:
    async with catching(full_database_url) as (session, _):
        assert len((await session.exec(select(w.c.id))).all()) == TOTAL
        assert len((await session.exec(select(users.c.id))).all()) == OWNERS
        assert await sessions.find_valid(session, "nobody") is None
