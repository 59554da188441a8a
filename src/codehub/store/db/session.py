"""Sessions: SQLAlchemy statements sent by asyncpg.

SQLAlchemy builds and compiles the statements and knows the types; the driver's connection runs them.
SQLAlchemy's own execution (session, cursor, greenlet, result) cost more than PostgreSQL and the driver
together, for features not used here: no object is tracked, nothing is loaded lazily (ADR 0011).

A statement is compiled once for as long as it lives: a constant of a module is compiled once per process. Its own
type says what ``exec`` gives (ADR 0033).
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from types import TracebackType
from typing import Protocol, Self, TypeVar, TypeVarTuple, overload

from asyncpg.transaction import Transaction
from sqlalchemy import Executable, TextClause, UpdateBase
from sqlalchemy.sql.selectable import TypedReturnsRows
from sqlmodel.sql.expression import SelectOfScalar

from codehub.store.db.prepared import Connection as Connection
from codehub.store.db.prepared import prepared
from codehub.store.db.results import Rows as Rows
from codehub.store.db.results import Written as Written
from codehub.store.db.typed_text import TextOfScalar

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Params = Mapping[str, object]

ROLLBACK_SECONDS = 2.0


class ConnectionSource(Protocol):
    """Where a session gets its connection from."""

    async def acquire(self) -> Connection: ...

    def release(self, connection: Connection) -> None: ...


class SingleConnection:
    """Lends one connection, owned by the caller, to one session after the other."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def acquire(self) -> Connection:
        return self._connection

    def release(self, connection: Connection) -> None:
        """Do nothing: the owner keeps the connection."""


class Session:
    """One connection and one transaction, from the first statement to its end.

    Ended by ``commit`` or ``rollback``. Used by one task alone. Leaving it rolls back what was not committed.
    If the process dies, or the state of the connection is unknown (a cancellation, a rollback that fails),
    the connection is closed, and the server rolls back.
    """

    def __init__(self, source: ConnectionSource, *, autocommit: bool = False) -> None:
        self._source = source
        self._autocommit = autocommit
        self._connection: Connection | None = None
        self._transaction: Transaction | None = None
        self.transaction_flags: dict[str, bool] = {}
        """Facts that hold until the transaction ends, such as a lock taken."""

    @overload
    async def exec(  # type: ignore[overload-overlap]  # a select of one thing gives it without a tuple
        self, statement: SelectOfScalar[T] | TextOfScalar[T], params: Params | None = None
    ) -> Rows[T]: ...

    @overload
    async def exec(
        self, statement: TypedReturnsRows[*Ts], params: Params | None = None
    ) -> Rows[tuple[*Ts]]: ...

    @overload
    async def exec(self, statement: UpdateBase | TextClause, params: Params | None = None) -> Written: ...

    async def exec(self, statement: Executable, params: Params | None = None) -> object:
        """Run a statement, beginning the transaction if none is open.

        A select of one model, record or column gives these; anything else that returns rows gives tuples.
        """
        return await self._run(statement, params or {})

    async def _run(self, statement: Executable, params: Params) -> object:
        connection, compiled = await self._ready(), prepared(statement)
        try:
            if not compiled.returns_rows:
                return Written(await compiled.write(connection, params))
            return Rows(compiled.read(await compiled.fetch(connection, params)))
        except TimeoutError:
            self._terminate()  # the server may still run it, or may never answer again
            raise

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Self]:
        """Commit at the end of the block, roll back on any exception."""
        try:
            yield self
        except BaseException as error:
            await self._undo(error)
            raise
        await self.commit()

    @asynccontextmanager
    async def begin_nested(self) -> AsyncIterator[None]:
        """Open a savepoint: a failure inside leaves the transaction usable."""
        connection = await self._ready()
        async with connection.transaction():
            yield

    async def commit(self) -> None:
        await self._end(Transaction.commit)

    async def rollback(self) -> None:
        await self._end(_roll_back)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._undo(error)
        finally:
            connection, self._connection = self._connection, None
            if connection is not None:
                self._source.release(connection)

    async def _ready(self) -> Connection:
        if self._connection is None:
            self._connection = await self._source.acquire()
        if self._transaction is None and not self._autocommit:
            transaction = self._connection.transaction()
            try:
                await transaction.start()
            except TimeoutError:
                self._terminate()
                raise
            self._transaction = transaction
        return self._connection

    async def _end(self, how: Callable[[Transaction], Awaitable[None]]) -> None:
        transaction, self._transaction = self._transaction, None
        self.transaction_flags.clear()
        if transaction is None:
            return
        try:
            await how(transaction)
        except BaseException:
            self._terminate()
            raise

    async def _undo(self, error: BaseException | None) -> None:
        """Roll back an open transaction.

        Its own failure is suppressed: the caller raises the first one.
        """
        if error is not None and not isinstance(error, Exception):
            self._transaction = None
            self._terminate()
            return
        with suppress(Exception):
            await self.rollback()

    def _terminate(self) -> None:
        if self._connection is not None:
            self._connection.terminate()


async def _roll_back(transaction: Transaction) -> None:
    async with asyncio.timeout(ROLLBACK_SECONDS):
        await transaction.rollback()


class Sessions:
    """Opens sessions on connections of one source."""

    def __init__(self, source: ConnectionSource, *, autocommit: bool = False) -> None:
        self._source = source
        self._autocommit = autocommit

    def __call__(self) -> Session:
        return Session(self._source, autocommit=self._autocommit)

    def begin(self) -> AbstractAsyncContextManager[Session]:
        """Open a session with a transaction that commits at the end."""
        return self._begin()

    @asynccontextmanager
    async def _begin(self) -> AsyncIterator[Session]:
        async with self() as session, session.begin():
            yield session
