"""A PostgreSQL in memory, as far as the coordinators can tell: sessions, transactions, locks, NOTIFY.

READ COMMITTED, like the real one: a statement sees what is committed and its own transaction's writes; a
write waits for the row's lock, then judges its condition again on what is there by then; a commit makes
everything visible at once. After an error nothing but a rollback is accepted. A session that ends, however it
ends, rolls back and frees all its locks, advisory ones included. Time is the loop's.

What the statements *say* is in ``queries``; ``test_database.py`` compares both with the real server call by
call, ``tests/integration/store/test_parity_interleaved.py`` in every order of two sessions.
"""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Literal

import asyncpg

from tests.simulation.chaos import Chaos
from tests.simulation.loop import Process

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LOCK_TIMEOUT_SECONDS = 5.0
DEADLOCK_SECONDS = 1.0

Key = tuple[str, Any]
Mode = Literal["share", "exclusive"]


class Gone(Enum):
    """A row that a transaction has deleted."""

    GONE = "gone"


@dataclass(eq=False)
class Transaction:
    backend: "Backend"
    changes: dict[Key, Any] = field(default_factory=dict)
    locks: set[Key] = field(default_factory=set)
    term: tuple[str, int] | None = None  # whose term it was checked against
    last_statement_at: float = 0.0
    failed: bool = False


@dataclass(eq=False)
class Backend:
    """One session, at the server's end."""

    pid: int
    process: Process | None
    open: bool = True
    transaction: Transaction | None = None
    waits_for: tuple[Key, Mode] | None = None
    listeners: list[Callable[[str], None]] = field(default_factory=list)
    on_end: list[Callable[[], None]] = field(default_factory=list)


class Database:
    def __init__(self, *, chaos: Chaos, loop: asyncio.AbstractEventLoop) -> None:
        self.chaos = chaos
        self.random = random.Random(chaos.seed + 1)
        self.up = True
        self.backends: list[Backend] = []
        self.on_commit: list[Callable[[Transaction, dict[Key, Any]], None]] = []
        self.on_write: list[Callable[[Transaction, Key, Any, Any], None]] = []
        self.problems: list[str] = []
        self._loop = loop
        self._tables: dict[str, dict[Any, Any]] = {}
        self._locks: dict[Key, dict[Backend, Mode]] = {}
        self._waiters: dict[Key, list[asyncio.Future[None]]] = {}
        self._advisory: dict[int, Backend] = {}
        self._queue: dict[int, list[tuple[Backend, asyncio.Future[None]]]] = {}
        self._last_now = EPOCH
        self._next_pid = 1000

    # Time and sessions

    def now(self) -> datetime:
        """``clock_timestamp()``: strictly later than whatever it said before."""
        at = EPOCH + timedelta(seconds=self._loop.time())
        self._last_now = max(at, self._last_now + timedelta(microseconds=1))
        return self._last_now

    def connect(self, process: Process | None) -> Backend:
        if not self.up:
            raise OSError("connection refused")
        self._next_pid += 1
        backend = Backend(self._next_pid, process)
        self.backends.append(backend)
        return backend

    def end(self, backend: Backend) -> None:
        """The session is over: rolled back, its locks free, its successor in the queue granted."""
        if not backend.open:
            return
        backend.open = False
        self.backends.remove(backend)
        self.rollback(backend)
        if backend.waits_for is not None:
            self._wake(backend.waits_for[0])
        for waiting in self._queue.values():
            waiting[:] = [entry for entry in waiting if entry[0] is not backend]
        for key in [key for key, holder in self._advisory.items() if holder is backend]:
            self.unlock(backend, key)
        for tell in backend.on_end:
            tell()

    def end_all(self, *, process: Process | None = None) -> None:
        for backend in list(self.backends):
            if process is None or backend.process is process:
                self.end(backend)

    # Transactions

    def begin(self, backend: Backend) -> Transaction:
        assert backend.transaction is None
        backend.transaction = Transaction(backend, last_statement_at=self._loop.time())
        return backend.transaction

    async def statement(self, transaction: Transaction, what: str) -> None:
        """Every statement passes here first."""
        self._judge_idleness(transaction)
        await self.chaos.gate(what)
        if self.chaos.strikes("session"):
            self.chaos.say(f"session {transaction.backend.pid} is ended at {what}")
            self.end(transaction.backend)
        if not transaction.backend.open:
            raise asyncpg.ConnectionDoesNotExistError(f"the session was ended at {what}")
        if transaction.failed:
            raise asyncpg.InFailedSQLTransactionError("an earlier statement has failed")
        transaction.last_statement_at = self._loop.time()

    async def commit(self, transaction: Transaction) -> None:
        """Make it visible. What has failed is rolled back instead, without a word, as the server does."""
        if transaction.failed:
            self._close(transaction)
            return
        await self.statement(transaction, "COMMIT")
        before = {(table, key): self.get(None, table, key) for table, key in transaction.changes}
        for (table, key), value in transaction.changes.items():
            if value is Gone.GONE:
                self._tables[table].pop(key, None)
            else:
                self._tables.setdefault(table, {})[key] = value
        for tell in self.on_commit:
            tell(transaction, before)
        self._close(transaction)
        await self.chaos.gate("after COMMIT")
        if not transaction.backend.open or self.chaos.strikes("session"):
            self.end(transaction.backend)
            raise asyncpg.ConnectionDoesNotExistError("no answer to the commit")

    def rollback(self, backend: Backend) -> None:
        if backend.transaction is not None:
            self._close(backend.transaction)

    def _close(self, transaction: Transaction) -> None:
        self._release(transaction)
        transaction.backend.transaction = None

    def _release(self, transaction: Transaction) -> None:
        """Its locks are free and its writes gone: at its end, or when a statement of it has failed."""
        transaction.changes.clear()
        for key in transaction.locks:
            self._locks[key].pop(transaction.backend, None)
            self._wake(key)
        transaction.locks.clear()

    # Rows

    def get(self, transaction: Transaction | None, table: str, key: Any) -> Any:
        if transaction is not None and (table, key) in transaction.changes:
            value = transaction.changes[table, key]
            return None if value is Gone.GONE else value
        return self._tables.get(table, {}).get(key)

    def scan(self, transaction: Transaction | None, table: str) -> Iterator[Any]:
        """Every row, as this transaction sees it now, the keys in order of insertion."""
        keys = dict.fromkeys(self._tables.get(table, {}))
        if transaction is not None:
            keys |= dict.fromkeys(key for name, key in transaction.changes if name == table)
        for key in keys:
            row = self.get(transaction, table, key)
            if row is not None:
                yield row

    def keys(self, table: str) -> list[Any]:
        return list(self._tables.get(table, {}))

    def put(self, transaction: Transaction, table: str, key: Any, value: Any) -> None:
        before = self.get(transaction, table, key)
        for tell in self.on_write:
            tell(transaction, (table, key), before, value)
        transaction.changes[table, key] = value

    def overwrite(self, table: str, key: Any, value: Any) -> None:
        """Not a transaction: somebody put another database in place."""
        self._tables[table][key] = value

    def snapshot(self) -> dict[Key, Any]:
        """What is committed now, for a statement that looks at it later."""
        return {(table, key): row for table, found in self._tables.items() for key, row in found.items()}

    async def lock(self, transaction: Transaction, key: Key, mode: Mode = "exclusive") -> None:
        """Wait for a row's lock, for five seconds at most (``lock_timeout``)."""
        await self._until_free(transaction, key, mode)
        holders = self._locks.setdefault(key, {})
        if holders.get(transaction.backend) != "exclusive":
            holders[transaction.backend] = mode
        transaction.locks.add(key)

    def try_lock(self, transaction: Transaction, key: Key) -> bool:
        """``SKIP LOCKED``: lock it unless another has it."""
        if self._blockers(transaction.backend, key, "exclusive"):
            return False
        self._locks.setdefault(key, {})[transaction.backend] = "exclusive"
        transaction.locks.add(key)
        return True

    def is_written_elsewhere(self, transaction: Transaction, key: Key) -> bool:
        """Whether another open transaction has written this row."""
        others = self._blockers(transaction.backend, key, "exclusive")
        return any(each.transaction is not None and key in each.transaction.changes for each in others)

    def written_elsewhere(self, transaction: Transaction) -> list[tuple[Key, Any, Any]]:
        """Rows that other open transactions have written: their keys, as committed, and as they will be."""
        others = [each.transaction for each in self.backends if each is not transaction.backend]
        return [
            (key, self.get(None, *key), after)
            for other in others
            if other is not None
            for key, after in other.changes.items()
        ]

    async def until_decided(self, transaction: Transaction, key: Key) -> None:
        """Wait for whoever has written this row, as a unique index does; a lock alone is not waited for."""
        while self.is_written_elsewhere(transaction, key):
            await self._until_free(transaction, key, "exclusive")

    async def _until_free(self, transaction: Transaction, key: Key, mode: Mode) -> None:
        backend = transaction.backend
        deadlines = [self._loop.time() + DEADLOCK_SECONDS, self._loop.time() + LOCK_TIMEOUT_SECONDS]
        backend.waits_for = (key, mode)
        try:
            while self._blockers(backend, key, mode):
                try:
                    async with asyncio.timeout_at(deadlines[0]):
                        await self._released(key)
                except TimeoutError:
                    deadlines.pop(0)
                    if not deadlines:
                        raise asyncpg.LockNotAvailableError("lock timeout") from None
                    if self._is_deadlock(backend):
                        raise asyncpg.DeadlockDetectedError("deadlock detected") from None
                if not backend.open:
                    raise asyncpg.ConnectionDoesNotExistError("the session was ended")
                transaction.last_statement_at = self._loop.time()
        except asyncpg.PostgresError:
            transaction.failed = True
            self._release(transaction)
            raise
        finally:
            backend.waits_for = None

    async def _released(self, key: Key) -> None:
        waiter = self._loop.create_future()
        waiters = self._waiters.setdefault(key, [])
        waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in waiters:
                waiters.remove(waiter)

    def _wake(self, key: Key) -> None:
        for waiter in self._waiters.pop(key, ()):
            if not waiter.done():
                waiter.set_result(None)

    def _blockers(self, backend: Backend, key: Key, mode: Mode) -> list[Backend]:
        holders = self._locks.get(key, {})
        return [
            other for other, held in holders.items() if other is not backend and "exclusive" in (mode, held)
        ]

    def _is_deadlock(self, waiting: Backend) -> bool:
        """Whether those it waits for wait, in the end, for it."""
        seen: set[Backend] = set()
        ahead = [waiting]
        while ahead:
            each = ahead.pop()
            blockers = self._blockers(each, *each.waits_for) if each.waits_for is not None else []
            if waiting in blockers:
                return True
            ahead += [other for other in blockers if other not in seen]
            seen.update(blockers)
        return False

    # Advisory locks

    def try_advisory(self, backend: Backend, key: int) -> bool:
        if self._advisory.get(key) not in (None, backend):
            return False
        self._advisory[key] = backend
        return True

    async def wait_advisory(self, backend: Backend, key: int) -> None:
        """Wait in the queue until granted. (The real server gives up after 5 s, and is asked again.)"""
        if self.try_advisory(backend, key):
            return
        granted: asyncio.Future[None] = self._loop.create_future()
        self._queue.setdefault(key, []).append((backend, granted))

        def wake() -> None:
            if not granted.done():
                granted.set_result(None)

        backend.on_end.append(wake)
        await granted
        if not backend.open:
            raise ConnectionResetError("the session was ended while waiting")

    def unlock(self, backend: Backend, key: int) -> None:
        if self._advisory.get(key) is not backend:
            return
        del self._advisory[key]
        while queue := self._queue.get(key):
            successor, granted = queue.pop(0)
            if successor.open and not granted.done():
                self._advisory[key] = successor
                granted.set_result(None)
                return

    def unlock_all(self, backend: Backend) -> None:
        for key in [key for key, holder in self._advisory.items() if holder is backend]:
            self.unlock(backend, key)

    def holds_advisory(self, backend: Backend, key: int) -> bool:
        return backend.open and self._advisory.get(key) is backend

    def is_advisory_held(self, key: int) -> bool:
        holder = self._advisory.get(key)
        return holder is not None and holder.open

    def notify(self, payload: str) -> None:
        for backend in list(self.backends):
            for listener in backend.listeners:
                # The server tells them, also when whoever committed dies in the same moment.
                self._loop.call_soon(listener, payload, context=Context())

    def _judge_idleness(self, transaction: Transaction) -> None:
        """Invariant 9. A frozen or slowed process is no fault of the code's."""
        idle = self._loop.time() - transaction.last_statement_at
        process = transaction.backend.process
        thawed = process is not None and process.last_thaw > transaction.last_statement_at
        if transaction.term is not None and idle > 1.0 and not thawed and not self.chaos.has("slow"):
            self.problems.append(f"9: a leader's session was idle in transaction for {idle:.1f} s")
