"""One leader per coordinator: elected, verified, fenced, replaced at once."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import asyncpg
import pytest
from sqlalchemy import text

from codehub.coordinators import leadership as module
from codehub.coordinators.leadership import Leadership, LeadershipLost, lock_key, lock_name
from codehub.coordinators.loop import JITTER
from codehub.kit.clock import boottime
from codehub.store import control
from codehub.store.db.connections import asyncpg_dsn, coordinator_connector
from tests.support.postgres import PostgresServer
from tests.support.waiting import until

NAME = "coordinator:test"
Candidate = Callable[[str], Leadership]


@pytest.fixture
async def candidate(database_url: str) -> AsyncIterator[Candidate]:
    async with AsyncExitStack() as stack:

        def make(holder: str) -> Leadership:
            connector = coordinator_connector(database_url)
            leadership = Leadership(store=control, connector=connector, name=NAME, holder_id=holder)
            stack.push_async_callback(leadership.release)
            return leadership

        yield make


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(asyncpg_dsn(database_url))
    yield connection
    await connection.close()


def test_the_key_is_the_head_of_a_sha256_signed() -> None:
    assert lock_key("coordinator:wc") == -8263261231184964333  # sha256: 8d52ffb0dcf69513…


def test_two_installations_can_share_a_database() -> None:
    assert lock_name("wc") == "coordinator:wc"
    assert lock_name("wc", lock_id="blue") == "blue:coordinator:wc"


async def test_the_second_waits_and_takes_over_when_the_first_lets_go(candidate: Candidate) -> None:
    first, second = candidate("first"), candidate("second")
    term = await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    done, _ = await asyncio.wait({waiting}, timeout=0.2)
    assert not done
    await first.release()
    async with asyncio.timeout(5):
        successor = await waiting
    assert successor.epoch == term.epoch + 1
    assert second.is_leader
    assert not first.is_leader


async def test_whoever_waits_for_the_lead_leaves_no_errors_in_the_log_of_the_server(
    candidate: Candidate, postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOCK_CALL_SECONDS", 1.0)
    first, second = candidate("first"), candidate("second")
    await first.acquire()
    log = postgres_server.directory / "log"
    before = log.stat().st_size
    tries: list[bool] = []
    try_lock = second._try_lock

    async def count(raw: "asyncpg.Connection[asyncpg.Record]") -> bool:
        tries.append(await try_lock(raw))
        return tries[-1]

    monkeypatch.setattr(second, "_try_lock", count)
    waiting = asyncio.create_task(second.acquire())

    async def waited_twice() -> bool:
        return len(tries) >= 2 and not any(tries)

    await until(waited_twice, what="two waits in vain")
    await first.release()
    await waiting
    assert "lock timeout" not in log.read_bytes()[before:].decode()


async def test_asking_again_does_not_nest_the_lock(candidate: Candidate) -> None:
    first, second = candidate("first"), candidate("second")
    assert await first.acquire() == await first.acquire()
    await first.release()
    async with asyncio.timeout(5):
        await second.acquire()


async def test_a_terminated_session_is_noticed_and_nothing_is_written(
    candidate: Candidate, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    leader = candidate("leader")
    term = await leader.acquire()
    await leader.verify()
    await admin.execute("SELECT pg_terminate_backend($1)", term.backend_pid)
    with pytest.raises(LeadershipLost):
        await leader.verify()
    assert not leader.is_leader
    assert leader.lost.is_set()
    with pytest.raises(LeadershipLost):
        async with leader.transaction():
            pytest.fail("a transaction without a term")
    with pytest.raises(LeadershipLost):
        leader.assert_recent()


async def test_a_session_that_ends_inside_a_transaction_commits_nothing(
    candidate: Candidate, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    leader = candidate("leader")
    term = await leader.acquire()

    async def write_and_lose_the_session() -> None:
        async with leader.transaction() as session:
            await session.exec(text("INSERT INTO archive_orphans (path) VALUES ('written-without-a-lock')"))
            await admin.execute("SELECT pg_terminate_backend($1)", term.backend_pid)
            await session.exec(text("SELECT 1"))

    with pytest.raises(LeadershipLost):
        await write_and_lose_the_session()
    assert await admin.fetchval("SELECT count(*) FROM archive_orphans") == 0
    assert not leader.is_leader


async def test_an_old_term_writes_nothing(
    candidate: Candidate, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    """Somebody else's term has begun though this session still holds its lock: the row decides."""
    leader = candidate("leader")
    await leader.acquire()
    await admin.execute("UPDATE system_locks SET epoch = epoch + 1 WHERE lock_name = $1", NAME)

    async def write() -> None:
        async with leader.transaction() as session:
            await session.exec(text("INSERT INTO archive_orphans (path) VALUES ('old-term')"))

    with pytest.raises(LeadershipLost):
        await write()
    assert await admin.fetchval("SELECT count(*) FROM archive_orphans") == 0


async def test_a_caller_s_own_error_rolls_back_and_keeps_the_lead(
    candidate: Candidate, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    leader = candidate("leader")
    await leader.acquire()

    async def write_and_fail() -> None:
        async with leader.transaction() as session:
            await session.exec(text("INSERT INTO archive_orphans (path) VALUES ('half')"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await write_and_fail()
    await leader.verify()
    async with leader.transaction() as session:
        await session.exec(text("INSERT INTO archive_orphans (path) VALUES ('whole')"))
    assert await admin.fetchval("SELECT array_agg(path) FROM archive_orphans") == ["whole"]


async def test_a_cancelled_transaction_throws_the_connection_away(candidate: Candidate) -> None:
    leader = candidate("leader")
    await leader.acquire()
    entered = asyncio.Event()

    async def work() -> None:
        async with leader.transaction() as session:
            entered.set()
            await session.exec(text("SELECT pg_sleep(30)"))

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not leader.is_leader


async def test_the_lock_session_is_never_left_in_a_transaction(
    candidate: Candidate, admin: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    leader = candidate("leader")
    term = await leader.acquire()
    await leader.verify()
    async with leader.transaction() as session:
        await session.exec(text("SELECT 1"))
    state = await admin.fetchval("SELECT state FROM pg_stat_activity WHERE pid = $1", term.backend_pid)
    assert state == "idle"


async def test_an_old_verification_forbids_a_side_effect(
    candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process thawed after a long freeze finds by its own clock that it may no longer act."""
    leader = candidate("leader")
    await leader.acquire()
    leader.assert_recent()
    monkeypatch.setattr(module, "boottime", lambda: boottime() + 10.5)
    with pytest.raises(LeadershipLost):
        leader.assert_recent()


@pytest.mark.parametrize("verify_seconds", [0.1, 2.0, 4.0, 6.0, 10.0, 11.0])
def test_a_leader_that_is_well_speaks_before_the_server_ends_its_session(verify_seconds: float) -> None:
    latest = verify_seconds * (1 + JITTER) + module.VERIFY_SECONDS
    assert latest < module.session_idle_seconds(verify_seconds)
    assert verify_seconds * (1 + JITTER) < module.LONGEST_VERIFICATION_AGE_SECONDS


async def test_a_pooler_is_refused(candidate: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transaction pooler hands out other backends than the one the connection was made with."""
    monkeypatch.setattr(asyncpg.Connection, "get_server_pid", lambda _self: 1)
    with pytest.raises(module.PooledConnection, match="pooler"):
        await candidate("leader").acquire()


async def test_a_frozen_leader_is_ended_by_the_server(database_url: str) -> None:
    """Its kernel still answers, so only the idle time-out of the session frees the lock."""
    impatient = coordinator_connector(database_url, settings={"idle_session_timeout": "300ms"})
    frozen = Leadership(store=control, connector=impatient, name=NAME, holder_id="frozen")
    connector = coordinator_connector(database_url)
    heir = Leadership(store=control, connector=connector, name=NAME, holder_id="heir")
    try:
        before = await frozen.acquire()
        async with asyncio.timeout(10):
            after = await heir.acquire()
        assert after.epoch == before.epoch + 1

        async def noticed() -> bool:
            try:
                await frozen.verify()
            except LeadershipLost:
                return True
            return False

        await until(noticed, what="the frozen leader to notice")
    finally:
        await frozen.release()
        await heir.release()
