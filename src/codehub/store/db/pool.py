"""A connection pool for short transactions."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from codehub.kit.clock import monotonic
from codehub.store.db.session import Connection
from codehub.store.errors import DATABASE_FAILED

PING_AFTER_IDLE_SECONDS = 5.0
PING_SECONDS = 2.0
REPLACE_AFTER_SECONDS = 1800.0


@dataclass
class _IdleConnection:
    connection: Connection
    returned_at: float


class Pool:
    """Lends connections, the one returned last first.

    A closed connection is never lent, so a restarted PostgreSQL fails no request, and each is replaced after
    half an hour. asyncpg is notified when the server ends a session; only a connection idle for 5 s or more
    may be dead without notice, and that one is pinged first.

    asyncpg has a pool too. This one lends at 0.4 to 0.6 of its CPU, because it makes no task and no proxy object
    for each loan: ``python -m bench store-pool``.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[Connection]], *, size: int, wait_seconds: float
    ) -> None:
        self._connect = connect
        self._wait_seconds = wait_seconds
        self._places = asyncio.Semaphore(size)
        self._idle: list[_IdleConnection] = []
        self._opened_at: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self.lent = 0

    async def acquire(self) -> Connection:
        """Lend a connection. Raises ``TimeoutError`` if none is free or opened in time."""
        async with asyncio.timeout(self._wait_seconds):
            connection = await self._wait_for_one()
        self.lent += 1
        return connection

    async def _wait_for_one(self) -> Connection:
        await self._places.acquire()
        try:
            return await self._find_alive() or await self._open()
        except BaseException:
            self._places.release()
            raise

    def release(self, connection: Connection) -> None:
        """Take a connection back; a closed one is dropped."""
        if not connection.is_closed():
            self._idle.append(_IdleConnection(connection, monotonic()))
        self.lent -= 1
        self._places.release()

    async def dispose(self) -> None:
        """Close the idle connections. Later callers get new ones."""
        idle, self._idle = self._idle, []
        for each in idle:
            await _close(each.connection)

    async def _open(self) -> Connection:
        connection = await self._connect()
        self._opened_at[connection] = monotonic()
        return connection

    async def _find_alive(self) -> Connection | None:
        while self._idle:
            idle = self._idle.pop()
            if idle.connection.is_closed():
                continue
            now = monotonic()
            if now - self._opened_at[idle.connection] > REPLACE_AFTER_SECONDS:
                await _close(idle.connection)
            elif now - idle.returned_at < PING_AFTER_IDLE_SECONDS or await _answers(idle.connection):
                return idle.connection
        return None


async def _answers(connection: Connection) -> bool:
    try:
        await connection.fetchval("SELECT 1", timeout=PING_SECONDS)
    except BaseException as error:
        connection.terminate()
        if isinstance(error, Exception):
            return False
        raise
    return True


async def _close(connection: Connection) -> None:
    with suppress(*DATABASE_FAILED):
        await connection.close(timeout=PING_SECONDS)
