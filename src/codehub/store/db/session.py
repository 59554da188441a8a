"""Sessions: SQLAlchemy statements sent by asyncpg.

SQLAlchemy builds and compiles the statements and knows the types; the driver's connection runs them.
SQLAlchemy's own execution (session, cursor, greenlet, result) cost more than PostgreSQL and the driver
together, for features not used here: no object is tracked, nothing is loaded lazily (ADR 0011).

A statement is compiled once for as long as it lives: a constant of a module is compiled once per process.
"""

import asyncio
import json
from collections import namedtuple
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, cast
from weakref import WeakKeyDictionary

import asyncpg
from asyncpg.transaction import Transaction
from sqlalchemy import JSON, Executable, TextClause
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from codehub.store.errors import NoResult

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

T = TypeVar("T")

ROLLBACK_SECONDS = 2.0

_DIALECT = asyncpg_dialect()  # type: ignore[no-untyped-call]
_REQUIRED = object()


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


class Rows(Sequence[T], Generic[T]):
    """All rows a statement returned.

    ``rowcount`` counts the rows written if the statement returns none.
    """

    def __init__(self, rows: Sequence[T], rowcount: int | None = None) -> None:
        self._rows = rows
        self.rowcount = len(rows) if rowcount is None else rowcount

    def __iter__(self) -> Iterator[T]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def all(self) -> Sequence[T]:
        return self._rows

    def first(self) -> T | None:
        return self._rows[0] if self._rows else None

    def one(self) -> T:
        if len(self._rows) != 1:
            raise NoResult(f"one row was expected, there are {len(self._rows)}")
        return self._rows[0]

    def scalars(self) -> "Rows[Any]":
        """Return the first column of each row."""
        return Rows([cast(Any, row)[0] for row in self._rows], self.rowcount)

    def scalar_one(self) -> Any:
        return cast(Any, self.one())[0]

    def scalar_one_or_none(self) -> Any:
        return self.scalar_one() if self._rows else None


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
        self.transaction_flags: dict[str, Any] = {}
        """Facts that hold until the transaction ends, such as a lock taken."""

    async def execute(self, statement: Executable, params: Mapping[str, Any] | None = None) -> Rows[Any]:
        """Run a statement, beginning the transaction if none is open."""
        connection = await self._ready()
        try:
            return await prepared(statement).run(connection, params or {})
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


class Prepared:
    """A compiled statement: its SQL, the order of its values, and how rows are read."""

    def __init__(self, statement: Executable) -> None:
        compiled = cast(
            SQLCompiler,
            cast(Any, statement).compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True}),
        )
        self._sql = str(compiled)
        self._values = [_value(compiled, name) for name in compiled.positiontup or ()]
        columns = () if isinstance(statement, TextClause) else cast(Any, statement).exported_columns
        self._returns_rows = isinstance(statement, TextClause) or len(columns) > 0
        readers = enumerate(_reader(column.type) for column in columns)
        self._readers = [(index, reader) for index, reader in readers if reader is not None]

    async def run(self, connection: Connection, params: Mapping[str, Any]) -> Rows[Any]:
        if not self._returns_rows:
            status = await connection.execute(self._sql, *self._arguments(params))
            return Rows((), int(status.rpartition(" ")[2]))
        return Rows(self.read(await self.fetch(connection, params)))

    async def fetch(self, connection: Connection, params: Mapping[str, Any]) -> list[asyncpg.Record]:
        return await connection.fetch(self._sql, *self._arguments(params))

    def read(self, records: Sequence[asyncpg.Record], *, beginning: int = 0) -> list[Any]:
        """Convert records to rows, without the columns before ``beginning``."""
        if not records:
            return []
        make = _row_type(tuple(records[0].keys())[beginning:])
        if not self._readers:
            return [make(record[beginning:]) for record in records]
        rows = []
        for record in records:
            values = list(record)
            for index, reader in self._readers:
                values[index] = reader(values[index])
            rows.append(make(values[beginning:]))
        return rows

    def _arguments(self, params: Mapping[str, Any]) -> list[Any]:
        return [take(params) for take in self._values]


_known: WeakKeyDictionary[Executable, Prepared] = WeakKeyDictionary()


def prepared(statement: Executable) -> Prepared:
    """Compile a statement, once for as long as it lives."""
    known = _known.get(statement)
    if known is None:
        known = _known[statement] = Prepared(statement)
    return known


def _value(compiled: SQLCompiler, name: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return how a parameter gets its value: from the call, or from the statement."""
    bind = compiled.binds[name]
    convert = bind.type.dialect_impl(_DIALECT).bind_processor(_DIALECT)
    default = _REQUIRED if bind.required else bind.effective_value
    if convert is None:
        return lambda params: params[name] if default is _REQUIRED else params.get(name, default)
    converted = default if default is _REQUIRED else convert(default)

    def take(params: Mapping[str, Any]) -> Any:
        return convert(params[name]) if converted is _REQUIRED or name in params else converted

    return take


def _reader(type_: TypeEngine[Any]) -> Callable[[Any], Any] | None:
    """Return the conversion from the driver's value to the type's; None: none needed.

    JSON arrives as its text.
    """
    if isinstance(type_, JSON):
        return _read_json
    return type_.dialect_impl(_DIALECT).result_processor(_DIALECT, None)


def _read_json(value: str | None) -> Any:
    return None if value is None else json.loads(value)


@cache
def _row_type(names: tuple[str, ...]) -> Callable[[Any], Any]:
    row_type: Any = namedtuple("Row", names, rename=True)  # type: ignore[misc]
    return cast("Callable[[Any], Any]", row_type._make)
