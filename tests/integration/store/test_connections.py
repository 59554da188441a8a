"""URLs as people have them, and connections that notice a dead peer and are never lent twice."""

import socket
from typing import Any

import asyncpg
import pytest
from sqlalchemy import DateTime, Integer

from codehub.store.db import pool as store_pool
from codehub.store.db.connections import (
    asyncpg_dsn,
    coordinator_connector,
    create_pool,
    reading_session_factory,
    session_factory,
)
from codehub.store.db.pool import Pool
from codehub.store.db.typed_text import typed_text
from codehub.store.errors import DatabaseUrlInvalid
from tests.support import postgres
from tests.support.ports import free_port


@pytest.mark.parametrize(
    ("url", "dsn"),
    [
        ("postgres://a:b@host:5433/db", "postgresql://a:b@host:5433/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql+asyncpg://host/db", "postgresql://host/db"),
        ("postgresql://u@/db?host=/run/pg", "postgresql://u@/db?host=%2Frun%2Fpg"),
        ("postgresql://h/db?sslmode=require", "postgresql://h/db?sslmode=require"),
        (
            "postgresql://h/db?connect_timeout=3&gssencmode=disable&sslmode=prefer",
            "postgresql://h/db?sslmode=prefer",
        ),
        ("postgresql://a:p%40ss@h1:1,h2:2/db", "postgresql://a:p%40ss@h1:1,h2:2/db"),
    ],
)
def test_urls_are_understood(url: str, dsn: str) -> None:
    assert asyncpg_dsn(url) == dsn


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/db", "hunter2", "", "postgresql://[hunter2"])
def test_other_urls_are_refused_without_telling_the_password(url: str) -> None:
    with pytest.raises(DatabaseUrlInvalid, match="DATABASE_URL") as refusal:
        asyncpg_dsn(url)
    assert "hunter2" not in str(refusal.value)


async def test_a_coordinators_session_ends_by_itself_when_it_is_frozen(database_url: str) -> None:
    connection = await coordinator_connector(database_url, application_name="codehub-wc").connect()
    settings = {}
    for name in ("application_name", "idle_session_timeout", "idle_in_transaction_session_timeout"):
        settings[name] = await connection.fetchval(f"SHOW {name}")
    await connection.close()
    assert settings == {
        "application_name": "codehub-wc",
        "idle_session_timeout": "10s",
        "idle_in_transaction_session_timeout": "10s",
    }


async def test_a_coordinator_wants_a_server_that_takes_writes() -> None:
    with (
        postgres.run_server(default_transaction_read_only="on") as server,
        pytest.raises(asyncpg.TargetServerAttributeNotMatched, match="read-write"),
    ):
        await coordinator_connector(server.url("postgres")).connect()


async def test_both_ends_of_a_tcp_connection_notice_a_dead_peer() -> None:
    with postgres.run_server(port=free_port()) as server:
        connection = await coordinator_connector(
            server.tcp_url("postgres"), application_name="test"
        ).connect()
        try:
            names = (
                "tcp_keepalives_idle",
                "tcp_keepalives_interval",
                "tcp_keepalives_count",
                "tcp_user_timeout",
            )
            server_side = [await connection.fetchval(f"SHOW {name}") for name in names]
            transport: Any = getattr(connection, "_transport")  # noqa: B009  asyncpg names it nowhere else
            sock = transport.get_extra_info("socket")
            client_side = [
                sock.getsockopt(socket.IPPROTO_TCP, option)
                for option in (
                    socket.TCP_KEEPIDLE,
                    socket.TCP_KEEPINTVL,
                    socket.TCP_KEEPCNT,
                    socket.TCP_USER_TIMEOUT,
                )
            ]
            keepalive = sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        finally:
            await connection.close()
    assert server_side == ["5", "2", "3", "8000"]
    assert client_side == [5, 2, 3, 8000]
    assert keepalive == 1


async def test_a_pooled_connection_known_to_be_closed_is_not_lent(database_url: str) -> None:
    pool = create_pool(database_url, pool_size=1)
    pid = await backend_pid(pool)
    killer = await coordinator_connector(database_url, application_name="killer").connect()
    await killer.execute("SELECT pg_terminate_backend($1, 5000)", pid)
    await killer.close()
    assert await backend_pid(pool) != pid
    await pool.dispose()


async def test_a_pooled_connection_that_died_unnoticed_is_pinged_and_not_lent(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_pool, "PING_AFTER_IDLE_SECONDS", 0.0)
    pool = create_pool(database_url, pool_size=1)
    pid = await backend_pid(pool)
    # In one blocking call, so that this event loop has no chance to hear of it.
    postgres.run_sql(database_url, f"SELECT pg_terminate_backend({pid}, 5000)")
    assert await backend_pid(pool) != pid
    await pool.dispose()


NOW = typed_text("SELECT now()", DateTime(timezone=True))


async def backend_pid(pool: Pool) -> int:
    async with session_factory(pool)() as session:
        return (await session.exec(typed_text("SELECT pg_backend_pid()", Integer()))).one()


async def test_a_reading_session_leaves_no_transaction_open(database_url: str) -> None:
    pool = create_pool(database_url)
    async with reading_session_factory(pool)() as session:
        first = (await session.exec(NOW)).one()
        assert (await session.exec(NOW)).one() > first
    async with session_factory(pool)() as session:  # the same pool still lends transactions
        first = (await session.exec(NOW)).one()
        assert (await session.exec(NOW)).one() == first
    await pool.dispose()
