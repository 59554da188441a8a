"""The driver's edge: compile statements for asyncpg, and read its records.

SQLAlchemy knows the text, the order of the parameters and the types; the driver knows none of it. Rows are
untyped here and nowhere else: ``Session.exec`` declares what each statement gives, from the statement's own
type, and ``make check`` refuses ``Any`` in the rest of the store (ADR 0033).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import asyncpg
from sqlalchemy import JSON, Executable
from sqlalchemy.dialects.postgresql.asyncpg import dialect as asyncpg_dialect
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine

from codehub.store.db.records import FromJson
from codehub.store.db.row_builder import columns_of, row_builder

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:
    Connection = asyncpg.Connection

Reader = Callable[[Any], Any]

_DIALECT = asyncpg_dialect()  # type: ignore[no-untyped-call]
_REQUIRED = object()


class Prepared:
    """A compiled statement: its SQL, the order of its values, and how rows are read.

    ``asked``: the statement whose rows are meant, if this one wraps it and selects ``leading`` columns more in
    front of them.
    """

    def __init__(self, statement: Executable, *, asked: Executable | None = None, leading: int = 0) -> None:
        compiled = cast(
            SQLCompiler,
            cast(Any, statement).compile(dialect=_DIALECT, compile_kwargs={"render_postcompile": True}),
        )
        self._sql = str(compiled)
        self._values = [_value(compiled, name) for name in compiled.positiontup or ()]
        columns = columns_of(statement)
        self._leading, self._width = leading, len(columns)
        self._readers = [
            (index, reader)
            for index, column in enumerate(columns)
            if (reader := _reader(column.type)) is not None
        ]
        meant = statement if asked is None else asked
        self._build = row_builder(meant)
        self.returns_rows = bool(columns_of(meant))

    async def fetch(self, connection: Connection, params: Mapping[str, Any]) -> list[asyncpg.Record]:
        return await connection.fetch(self._sql, *self._arguments(params))

    async def write(self, connection: Connection, params: Mapping[str, Any]) -> int:
        """Run a statement without rows; return how many rows it wrote."""
        count = (await connection.execute(self._sql, *self._arguments(params))).rpartition(" ")[2]
        return int(count) if count.isdigit() else 0

    def read(self, records: Sequence[asyncpg.Record]) -> list[object]:
        """Convert records to rows: scalars, tuples, records or models."""
        if records and len(records[0]) != self._width:  # SQLAlchemy leaves out what comes again with a model
            raise TypeError(f"a model's column is selected before the model: {self._sql}")
        build, readers, leading = self._build, self._readers, self._leading
        if not readers:
            return [build(record[leading:]) for record in records]
        rows = []
        for record in records:
            values = list(record)
            for index, reader in readers:
                values[index] = reader(values[index])
            rows.append(build(values[leading:] if leading else values))
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


def _reader(type_: TypeEngine[Any]) -> Reader | None:
    """Return the conversion from the driver's value to the type's; None: none needed.

    JSON arrives as its text.
    """
    if isinstance(type_, JSON):
        return _read_json
    if isinstance(type_, FromJson):
        read, loads = type_.read, json.loads
        return lambda value: read(None if value is None else loads(value))
    return type_.dialect_impl(_DIALECT).result_processor(_DIALECT, None)


def _read_json(value: str | None) -> Any:
    return None if value is None else json.loads(value)
