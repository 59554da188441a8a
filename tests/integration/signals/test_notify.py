"""The LISTEN side: what is committed arrives in order, and a break is never silent."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, TypeAlias
from uuid import uuid4

import asyncpg
import pytest

from codehub.signals.notices import Change
from codehub.signals.notify import CHANNEL, ChangeListener, FeedLost
from tests.support.postgres import PostgresServer

PATIENCE = 20.0

Connection: TypeAlias = "asyncpg.Connection[Any]"


@pytest.fixture
async def connection(empty_database_url: str) -> AsyncIterator[Connection]:
    """Somebody else, who writes."""
    connection = await asyncpg.connect(empty_database_url)
    yield connection
    await connection.close()


@pytest.fixture
async def listener(empty_database_url: str) -> AsyncIterator[ChangeListener]:
    listener = ChangeListener()
    await listener.open(empty_database_url)
    yield listener
    await listener.close()


async def notify(connection: Connection, payload: str) -> None:
    await connection.execute("SELECT pg_notify($1, $2)", CHANNEL, payload)


def change(version: int = 1) -> Change:
    return Change(uuid4(), uuid4(), version, frozenset({"desired_state", "version"}))


def as_payload(change: Change) -> str:
    return json.dumps(
        {
            "id": str(change.id),
            "owner_id": str(change.owner_id),
            "version": change.version,
            "changed": sorted(change.changed),
        }
    )


async def receive(listener: ChangeListener, count: int) -> list[Change]:
    received: list[Change] = []
    while len(received) < count:
        batch = await listener.next_batch(timeout=PATIENCE)
        assert batch
        received += batch
    return received


async def test_changes_arrive_in_order(listener: ChangeListener, connection: Connection) -> None:
    changes = [change(version) for version in range(1, 101)]
    async with connection.transaction():
        for each in changes:
            await notify(connection, as_payload(each))
    assert await receive(listener, 100) == changes
    assert await listener.next_batch(timeout=0.01) == []


async def test_it_can_be_iterated(listener: ChangeListener, connection: Connection) -> None:
    mine = change()
    await notify(connection, as_payload(mine))
    async for each in listener:
        assert each == mine
        break


async def test_what_comes_while_nobody_reads_is_kept(
    listener: ChangeListener, connection: Connection
) -> None:
    """LISTEN, then resync, then consume: the resync takes its time."""
    first, second = change(1), change(2)
    await notify(connection, as_payload(first))
    await notify(connection, as_payload(second))
    assert await receive(listener, 2) == [first, second]


@pytest.mark.parametrize("payload", ["", "nonsense", "{}", "[]", '{"id": 1}', '{"progress": {}}', "null"])
async def test_garbage_is_ignored_and_counted(
    listener: ChangeListener, connection: Connection, payload: str
) -> None:
    mine = change()
    await notify(connection, payload)
    await notify(connection, as_payload(mine))
    assert await receive(listener, 1) == [mine]
    assert listener.ignored == 1


async def test_a_terminated_session_hands_out_the_rest_and_then_raises(
    empty_database_url: str, connection: Connection
) -> None:
    theirs = await asyncpg.connect(empty_database_url)
    listener = ChangeListener()
    await listener.attach(theirs)
    mine = change()
    await notify(connection, as_payload(mine))
    await theirs.execute("SELECT 1")  # its answer comes after the notification
    await connection.execute("SELECT pg_terminate_backend($1)", theirs.get_server_pid())
    assert await receive(listener, 1) == [mine]
    with pytest.raises(FeedLost):
        await listener.next_batch(timeout=PATIENCE)
    await listener.close()


async def test_a_waiting_reader_hears_of_the_loss(empty_database_url: str, connection: Connection) -> None:
    theirs = await asyncpg.connect(empty_database_url)
    listener = ChangeListener()
    await listener.attach(theirs)
    waiting = asyncio.create_task(listener.next_batch())
    await asyncio.sleep(0)
    await connection.execute("SELECT pg_terminate_backend($1)", theirs.get_server_pid())
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(FeedLost):
            await waiting
    await listener.close()


async def test_a_server_that_says_farewell_before_it_is_listened_to_is_a_lost_feed(
    postgres_server: PostgresServer, empty_database_url: str, connection: Connection
) -> None:
    """Its last words were read, its hanging up was not: the driver takes that for a mistake of its own."""
    ended = asyncio.Event()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_unix_connection(postgres_server.directory / ".s.PGSQL.5432")

        async def pass_on() -> None:
            while data := await reader.read(65536):
                requests.write(data)

        forth = asyncio.create_task(pass_on())
        while data := await answers.read(65536):
            writer.write(data)
        ended.set()
        await forth
        requests.close()
        writer.close()

    async with await asyncio.start_server(relay, "127.0.0.1") as server:
        port = server.sockets[0].getsockname()[1]
        theirs = await asyncpg.connect(empty_database_url, host="127.0.0.1", port=port)
        await connection.execute("SELECT pg_terminate_backend($1)", theirs.get_server_pid())
        async with asyncio.timeout(PATIENCE):
            await ended.wait()
        await connection.execute("SELECT 1")  # by its answer the loop has read the last words, too
        assert not theirs.is_closed()
        with pytest.raises(FeedLost):
            await ChangeListener().attach(theirs)
        theirs.terminate()


async def test_closing_leaves_an_attached_connection_to_its_owner(connection: Connection) -> None:
    listener = ChangeListener()
    await listener.attach(connection)
    assert await connection.fetch("SELECT pg_listening_channels()")
    await listener.close()
    assert not await connection.fetch("SELECT pg_listening_channels()")


async def test_listening_inside_a_transaction_is_refused(connection: Connection) -> None:
    """It would hear nothing before the commit, and nobody would notice."""
    async with connection.transaction():
        with pytest.raises(FeedLost):
            await ChangeListener().attach(connection)


async def test_a_reader_too_far_behind_must_resync(empty_database_url: str, connection: Connection) -> None:
    listener = ChangeListener(max_queued=10)
    theirs = await asyncpg.connect(empty_database_url)
    await listener.attach(theirs)
    for version in range(1, 21):
        await notify(connection, as_payload(change(version)))
    await theirs.execute("SELECT 1")
    with pytest.raises(FeedLost):
        await listener.next_batch(timeout=PATIENCE)
    await listener.close()
    await theirs.close()


async def test_no_postgres_is_a_lost_feed() -> None:
    with pytest.raises(FeedLost):
        await ChangeListener().open("postgresql://nobody@127.0.0.1:1/nothing", timeout=PATIENCE)


async def test_a_quiet_connection_is_probed(empty_database_url: str, connection: Connection) -> None:
    listener = ChangeListener(probe_seconds=0.01)
    await listener.open(empty_database_url)
    try:
        assert await listener.next_batch(timeout=0.2) == []
        mine = change()
        await notify(connection, as_payload(mine))
        assert await receive(listener, 1) == [mine]
    finally:
        await listener.close()
