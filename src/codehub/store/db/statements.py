"""Small pieces the query modules share."""

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
    """A part of a list. ``next_cursor`` continues after its last item; None: that was all."""

    items: Sequence[T]
    next_cursor: str | None


async def now(session: Session) -> datetime:
    """The database's time: the only one that decides about workspaces."""
    return cast(datetime, (await session.execute(_NOW)).scalar_one())


def param_rows(name: str, **columns: TypeEngine[Any]) -> TableValuedAlias:
    """Rows handed in as one array a column, ``given_…``: the same statement however many there are."""
    arrays = (bindparam(f"given_{each}", type_=ARRAY(type_)) for each, type_ in columns.items())
    typed = (column(each, type_) for each, type_ in columns.items())
    return func.unnest(*arrays).table_valued(*typed).render_derived().alias(name)


def params(**columns: Sequence[Any]) -> dict[str, Sequence[Any]]:
    """The arrays that ``param_rows`` asks for."""
    return {f"given_{name}": values for name, values in columns.items()}


async def rows_written(
    session: Session, statement: Executable, params: Mapping[str, Any] | None = None
) -> int:
    """Run a write and tell how many rows it met. For a fenced one, zero means: not yours any more."""
    return (await session.execute(statement, params)).rowcount


def uuid_array(ids: Iterable[UUID]) -> "BindParameter[Sequence[UUID]]":
    """One parameter however many ids there are: the statement is prepared once."""
    return bindparam(None, list(ids), type_=ARRAY(Uuid()))


def like_pattern(fragment: str) -> str:
    """``fragment`` anywhere in the text, its own ``%`` and ``_`` taken literally (escape: backslash)."""
    escaped = fragment.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
