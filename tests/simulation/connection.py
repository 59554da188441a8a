"""The client's end: what ``Leadership`` and the services take for a connector, a connection and a session."""

import asyncio
from asyncio import CancelledError
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import asyncpg

from codehub.store.db.fencing import Fence
from codehub.store.errors import DATABASE_FAILED, TermOver
from tests.simulation.database import Database, Key, Transaction
from tests.simulation.loop import CURRENT

if TYPE_CHECKING:
    _DriverConnection = asyncpg.Connection[Any]
else:
    _DriverConnection = asyncpg.Connection


class Connector:
    """``coordinator_connector`` in the simulation."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def connect(self) -> "Connection":
        await self._database.chaos.gate("connect")
        return Connection(self._database)


class Connection(_DriverConnection):
    """The driver's connection: the few calls about locks and LISTEN, told apart by their text.

    ``swap`` is what a reconnecting driver or a pooler does behind its back.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self.backend = database.connect(CURRENT.get())
        self.lock_key = 0

    def swap(self) -> None:
        old = self.backend
        self.backend = self.database.connect(old.process)
        self.database.end(old)

    def __del__(self) -> None:
        """There is no socket to warn about."""

    def get_server_pid(self) -> int:
        return self.backend.pid

    async def fetchval(  # type: ignore[override]
        self, query: str, *args: Any, timeout: float | None = None
    ) -> Any:
        await self._pass(query, timeout)
        if "pg_is_in_recovery" in query:
            return False
        if "clock_timestamp" in query:
            return self.database.now()
        if "set_config('codehub.lock_key'" in query:
            self.lock_key = int(args[0])
            return args[0]
        if "pg_try_advisory_lock" in query:
            return self.database.try_advisory(self.backend, args[0])
        if "pg_locks" in query:
            key, pid = args
            return self.backend.pid == pid and self.database.holds_advisory(self.backend, key)
        assert query == "SELECT pg_backend_pid()", query
        return self.backend.pid

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        await self._pass(query, timeout)
        if "pg_advisory_lock" in query:
            await self.database.wait_advisory(self.backend, self.lock_key)
        elif "pg_advisory_unlock_all" in query:
            self.database.unlock_all(self.backend)
        else:
            assert query.startswith("SET lock_timeout"), query
        return ""

    def terminate(self) -> None:
        self.database.end(self.backend)

    def is_closed(self) -> bool:
        return not self.backend.open

    def is_in_transaction(self) -> bool:
        return self.backend.transaction is not None

    def add_termination_listener(self, callback: Any) -> None:
        self.backend.on_end.append(lambda: callback(self))

    def remove_termination_listener(self, callback: Any) -> None:
        """The listener is closed by then and does not mind."""

    async def add_listener(self, channel: str, callback: Any) -> None:
        await self._pass("LISTEN")
        self.backend.listeners.append(lambda payload: callback(self, 0, channel, payload))

    async def remove_listener(self, channel: str, callback: Any) -> None:
        await self._pass("UNLISTEN")
        self.backend.listeners.clear()

    async def _pass(self, what: str, timeout: float | None = None) -> None:
        if self.database.chaos.on:
            async with asyncio.timeout(timeout):
                await self.database.chaos.gate(what[:40])
        if self.database.chaos.strikes("session"):
            self.database.end(self.backend)
        if not self.backend.open:
            raise ConnectionResetError("the session was ended")


class TermCheck(Protocol):
    """Whether this term lasts; with ``lock`` it lasts until the transaction ends."""

    async def __call__(self, session: "Session", lock_name: str, epoch: int, *, lock: bool) -> bool: ...


class Session:
    """A ``store.db.session.Session``: one transaction from the first statement to ``commit`` or ``rollback``.

    The twins read ``db`` and ``transaction``. Stricter than the real one in one thing: it is refused once it
    was left, where the real one would begin a transaction that nobody ends.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.db = connection.database
        self.transaction_flags: dict[str, Any] = {}
        self._transaction: Transaction | None = None
        self._left = False

    @property
    def transaction(self) -> Transaction:
        assert self._transaction is not None, "a statement begins it"
        return self._transaction

    async def statement(self, what: str, *, writes: bool = False, fits_fence: bool = True) -> None:
        """Every statement of a twin begins here. ``writes``, ``fits_fence``: for a fenced session."""
        del writes, fits_fence
        if self._left:
            raise RuntimeError(f"the session was left before {what}")
        self._begin()
        await self.db.statement(self.transaction, what)

    def seen(self, table: str, key: Any) -> Any:
        """The row as the running statement found it when it began."""
        return self.db.get(self.transaction, table, key)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Self]:
        try:
            yield self
        except BaseException:
            await self.rollback()
            raise
        await self.commit()

    async def commit(self) -> None:
        transaction = self._end()
        if transaction is not None:
            await self.db.commit(transaction)

    async def rollback(self) -> None:
        if self._end() is not None:
            self.db.rollback(self.connection.backend)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.rollback()
        self._left = True

    def _begin(self) -> None:
        if self._transaction is not None:
            return
        if self.connection.backend.open and self.db.chaos.strikes("swap"):
            self.db.chaos.say(f"session {self.connection.backend.pid} is swapped for another")
            self.connection.swap()
        backend = self.connection.backend
        # Where the session was ended under us, whatever is asked next will fail.
        ended = Transaction(backend, last_statement_at=float("inf"))
        self._transaction = self.db.begin(backend) if backend.open else ended

    def _end(self) -> Transaction | None:
        transaction, self._transaction = self._transaction, None
        self.transaction_flags.clear()
        return transaction


class FencedSession(Session):
    """A ``store.db.fencing.FencedSession``: one statement, which is a transaction by itself.

    A read compares the term; a write locks it first. What a write finds is what was there when it began, also
    where it had to wait for the term.
    """

    now: datetime

    def __init__(self, connection: Connection, fence: Fence, term_lasts: TermCheck) -> None:
        super().__init__(connection)
        self._fence = fence
        self._term_lasts = term_lasts
        self._found: dict[Key, Any] | None = None
        self._failed = False

    async def statement(self, what: str, *, writes: bool = False, fits_fence: bool = True) -> None:
        if self._found is not None:
            raise RuntimeError("a second statement would be another transaction")
        if not fits_fence:
            raise TypeError(f"cannot be fenced: {what}")
        self._failed = True  # unless it gets through
        self._begin()
        self.transaction.term = (self._fence.lock_name, self._fence.epoch)
        await super().statement(what)
        self._found = self.db.snapshot()
        if not await self._term_lasts(self, self._fence.lock_name, self._fence.epoch, lock=writes):
            raise TermOver("another term has begun")
        self.now = self.db.now()
        self._failed = False

    def seen(self, table: str, key: Any) -> Any:
        assert self._found is not None
        return self._found.get((table, key))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """What the one statement wrote stays, whatever the caller raises after it."""
        if not self._failed and (kind is None or not issubclass(kind, (*DATABASE_FAILED, CancelledError))):
            await self.commit()
        await super().__aexit__(kind, error, trace)
