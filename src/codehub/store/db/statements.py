"""Helpers of the query modules: typed expressions, pages, array parameters, row counts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Boolean,
    Cast,
    ColumnElement,
    Function,
    TableValuedAlias,
    Text,
    UpdateBase,
    Uuid,
    bindparam,
    cast,
    column,
    func,
    literal,
)
from sqlalchemy.sql.elements import SQLCoreOperations
from sqlmodel import select

from codehub.store.db.records import AnyType
from codehub.store.db.session import Params, Session
from codehub.store.schema.tables import Json, timestamptz

T = TypeVar("T")


def clock() -> Function[datetime]:
    """Return the database's time at the moment it is evaluated."""
    return Function("clock_timestamp", type_=timestamptz)


def statement_time() -> Function[datetime]:
    """Return the database's time at the beginning of the statement."""
    return Function("statement_timestamp", type_=timestamptz)


def json_text(document: SQLCoreOperations[Json | None], key: str) -> ColumnElement[str]:
    """Return a member of a JSON column, as text; NULL if it is absent."""
    return document.op("->>", return_type=Text())(literal(key, Text()))


def json_flag(document: SQLCoreOperations[Json | None], key: str) -> Cast[bool]:
    """Return a boolean member of a JSON column; NULL if it is absent."""
    return cast(json_text(document, key), Boolean())


_NOW = select(clock())


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list. ``next_cursor`` continues after its last item; None: no more."""

    items: Sequence[T]
    next_cursor: str | None


async def now(session: Session) -> datetime:
    """Return the database's time: the only one that decides about workspaces."""
    return (await session.exec(_NOW)).one()


def param_rows(name: str, **columns: AnyType) -> TableValuedAlias:
    """Pass rows as one array parameter per column, ``given_…``.

    The statement is the same however many rows there are.
    """
    arrays = (bindparam(f"given_{each}", type_=ARRAY(type_)) for each, type_ in columns.items())
    typed = (column(each, type_) for each, type_ in columns.items())
    return func.unnest(*arrays).table_valued(*typed).render_derived().alias(name)


def params(**columns: Sequence[object]) -> dict[str, Sequence[object]]:
    """Return the array parameters of ``param_rows``."""
    return {f"given_{name}": values for name, values in columns.items()}


async def rows_written(session: Session, statement: UpdateBase, params: Params | None = None) -> int:
    """Run a write and return how many rows it matched.

    0 from a fenced write: the workspace or term belongs to another owner now.
    """
    return (await session.exec(statement, params)).rowcount


def uuid_array(ids: Iterable[UUID]) -> "BindParameter[Sequence[UUID]]":
    """Pass ids as one array parameter: the statement is prepared once."""
    return bindparam(None, list(ids), type_=ARRAY(Uuid()))


def like_pattern(fragment: str) -> str:
    """Return a LIKE pattern that finds ``fragment`` anywhere.

    Its own ``%`` and ``_`` are taken literally (escape: backslash).
    """
    escaped = fragment.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
