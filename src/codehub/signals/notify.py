"""Receive workspace changes from PostgreSQL: LISTEN workspace_changes.

The event listener uses this on the connection that carries its advisory lock (``attach``), so that losing the
lock and losing the feed are one event; ``open`` makes a connection of its own.

NOTIFY does not keep what was sent while no session listened. So the only safe order is: LISTEN, then a full
resync, then consume. What arrives during the resync waits in the queue here. When the connection ends, or the
queue overflows, ``FeedLost`` is raised after the last change was returned: the owner starts over, with a
resync. Nothing is ever skipped silently.
"""

import asyncio
from collections import deque
from contextlib import suppress
from typing import Any, Self

import asyncpg
from prometheus_client import Counter

from codehub.domain.errors import CodeHubError
from codehub.signals.notices import Change, parse_notice

CHANNEL = "workspace_changes"
MAX_QUEUED = 100_000

IGNORED = Counter("codehub_notify_ignored_total", "NOTIFY payloads that made no sense")

# InternalClientError is also raised for a server that has announced its shutdown and not closed the connection yet.
_FAILURES = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
    TimeoutError,
)


class FeedLost(CodeHubError):
    """The change feed broke: changes may have been missed. Listen again, then resync."""

    code = "feed_lost"


class ChangeListener:
    """Queues changes from the moment ``attach`` or ``open`` returns, until ``close``."""

    def __init__(self, *, probe_seconds: float = 10.0, max_queued: int = MAX_QUEUED) -> None:
        self.ignored = 0
        self._probe_seconds = probe_seconds
        self._max_queued = max_queued
        self._queue: deque[Change] = deque()
        self._arrived = asyncio.Event()
        self._lost: str | None = None
        self._lost_by: Exception | None = None
        self._connection: asyncpg.Connection[Any] | None = None
        self._owns_connection = False

    async def open(self, dsn: str, *, timeout: float = 5.0) -> None:
        """Listen on a connection of its own, probed while it is idle."""
        try:
            connection = await asyncpg.connect(dsn, timeout=timeout, command_timeout=timeout)
        except _FAILURES as error:
            raise FeedLost(f"cannot connect to PostgreSQL: {error}") from error
        self._owns_connection = True
        try:
            await self.attach(connection)
        except BaseException:
            connection.terminate()
            raise

    async def attach(self, connection: "asyncpg.Connection[Any]", *, timeout: float = 5.0) -> None:
        """Listen on the caller's connection.

        The caller keeps it alive, and never leaves a transaction open on it: a LISTEN inside a transaction
        starts at its commit, and nothing is delivered while one is open.
        """
        if connection.is_in_transaction():
            raise FeedLost("LISTEN inside a transaction would hear nothing")
        self._connection = connection
        connection.add_termination_listener(self._terminated)
        try:
            async with asyncio.timeout(timeout):
                await connection.add_listener(CHANNEL, self._receive)
        except _FAILURES as error:
            raise FeedLost(f"cannot listen: {error}") from error

    async def next_batch(self, *, timeout: float | None = None, limit: int = 500) -> list[Change]:
        """Return queued changes, oldest first; [] after ``timeout`` seconds.

        Raises ``FeedLost`` once the feed is broken and everything received before has been returned.
        """
        deadline = None if timeout is None else asyncio.get_running_loop().time() + timeout
        while not self._queue and self._lost is None:
            if not await self._wait(deadline):
                return []
        if not self._queue:
            raise FeedLost(self._lost) from self._lost_by
        batch = [self._queue.popleft() for _ in range(min(limit, len(self._queue)))]
        if not self._queue and self._lost is None:
            self._arrived.clear()
        return batch

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        return (await self.next_batch(limit=1))[0]

    async def close(self) -> None:
        """Stop listening. An attached connection stays open, an own one is closed."""
        connection, self._connection = self._connection, None
        self._fail("the listener was closed")
        if connection is None or connection.is_closed():
            return
        connection.remove_termination_listener(self._terminated)
        if self._owns_connection:
            connection.terminate()
            return
        with suppress(*_FAILURES):
            async with asyncio.timeout(2):
                await connection.remove_listener(CHANNEL, self._receive)

    async def _wait(self, deadline: float | None) -> bool:
        """Wait for a change or the loss of the feed. False: the deadline passed."""
        loop = asyncio.get_running_loop()
        probe_at = loop.time() + self._probe_seconds if self._owns_connection else None
        ends = [each for each in (deadline, probe_at) if each is not None]
        try:
            async with asyncio.timeout_at(min(ends, default=None)):
                await self._arrived.wait()
        except TimeoutError:
            if deadline is not None and loop.time() >= deadline:
                return False
            await self._probe()
        return True

    async def _probe(self) -> None:
        """Detect a dead peer that sent no FIN or RST by querying it."""
        connection = self._connection
        if connection is None:
            return
        try:
            await connection.execute("SELECT 1")  # bounded by the connection's command_timeout
        except _FAILURES as error:
            connection.terminate()
            self._fail(f"the connection does not answer: {error}")

    def _receive(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        notice = parse_notice(payload) if isinstance(payload, str) else None
        if not isinstance(notice, Change):
            self.ignored += 1
            IGNORED.inc()
        elif self._lost is None:
            self._queue.append(notice)
            self._arrived.set()
            if len(self._queue) > self._max_queued:
                # The reader has stalled. A resync replaces the whole queue and is cheaper.
                self._queue.clear()
                self._fail("the reader fell too far behind")

    def _terminated(self, _connection: object) -> None:
        if self._lost is None:
            self._lost_by = ConnectionResetError("the server ended the session")
        self._fail("the connection to PostgreSQL ended")

    def _fail(self, why: str) -> None:
        if self._lost is None:
            self._lost = why
        self._arrived.set()
