"""Helpers of the query modules: pages, array parameters, row counts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    BindParameter,
    Executable,
    TableValuedAlias,
    Uuid,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy.types import TypeEngine

from codehub.store.db.session import Session

T = TypeVar("T")

_NOW = select(func.clock_timestamp())


@dataclass(frozen=True)
class Page(Generic[T]):
    """A page of a list. ``next_cursor`` continues after its last item; None: no more."""

    items: Sequence[T]
    next_cursor: str | None


async def now(session: Session) -> datetime:
    """Return the database's time: the only one that decides about workspaces."""
    return cast(datetime, (await session.execute(_NOW)).scalar_one())


def param_rows(name: str, **columns: TypeEngine[Any]) -> TableValuedAlias:
    """Pass rows as one array parameter per column, ``given_…``.

    The statement is the same however many rows there are.
    """
    arrays = (bindparam(f"given_{each}", type_=ARRAY(type_)) for each, type_ in columns.items())
    typed = (column(each, type_) for each, type_ in columns.items())
    return func.unnest(*arrays).table_valued(*typed).render_derived().alias(name)


def params(**columns: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """Return the array parameters of ``param_rows``."""
    return {f"given_{name}": values for name, values in columns.items()}


async def rows_written(
    session: Session, statement: Executable, params: Mapping[str, Any] | None = None
) -> int:
    """Run a write and return how many rows it matched.

    0 from a fenced write: the workspace or term belongs to another owner now.
    """
    return (await session.execute(statement, params)).rowcount


def uuid_array(ids: Iterable[UUID]) -> "BindParameter[Sequence[UUID]]":
    """Pass ids as one array parameter: the statement is prepared once."""
    return bindparam(None, list(ids), type_=ARRAY(Uuid()))


def like_pattern(fragment: str) -> str:
    """Return a LIKE pattern that finds ``fragment`` anywhere.

    Its own ``%`` and ``_`` are taken literally (escape: backslash).
    """
    escaped = fragment.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
