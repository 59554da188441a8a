"""The client's end: what ``Leadership`` and the services take for a connector, a connection and a session."""

import asyncio
from contextlib import AsyncExitStack
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

import asyncpg

from codehub.store.cluster import terms
from codehub.store.db.fencing import Fence
from codehub.store.errors import TermOver
from tests.simulation.database import Database, Transaction
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


class ConnectionSource(Protocol):
    async def acquire(self) -> Any: ...


class Session:
    """A ``store.session.Session``; ``queries`` reads ``db`` and ``transaction``."""

    connection: Connection
    db: Database

    def __init__(self, source: ConnectionSource) -> None:
        self.source = source

    @property
    def transaction(self) -> Transaction:
        transaction = self.connection.backend.transaction
        if transaction is None:  # the session ended under us: whatever is asked next will fail
            transaction = Transaction(self.connection.backend, last_statement_at=float("inf"))
        return transaction

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """``begin`` has tidied up."""

    def begin(self) -> "_Begun":
        return _Begun(self)


class _Begun:
    """``session.begin()``: commits at its end, rolls back on any exception."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def __aenter__(self) -> None:
        session = self._session
        session.connection = await session.source.acquire()
        session.db = session.connection.database
        if session.connection.backend.open and session.db.chaos.strikes("swap"):
            session.db.chaos.say(f"session {session.connection.backend.pid} is swapped for another")
            session.connection.swap()
        if session.connection.backend.open:
            session.db.begin(session.connection.backend)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self._session.db.commit(self._session.transaction)
        else:
            self._session.db.rollback(self._session.connection.backend)


class FencedSession(Session):
    """A ``store.fencing.FencedSession``: here a transaction around it, in which the term is held."""

    now: datetime

    def __init__(self, source: ConnectionSource, fence: Fence) -> None:
        super().__init__(source)
        self._fence = fence
        self._begun = self.begin()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._begun)
            now = await terms.hold_term(self, self._fence.lock_name, self._fence.epoch)  # type: ignore[arg-type]
            if now is None:
                raise TermOver
            self.now = now
            stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._begun.__aexit__(kind, error, trace)
