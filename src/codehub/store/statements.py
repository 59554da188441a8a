"""Small pieces the query modules share."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, cast
from uuid import UUID

from sqlalchemy import ARRAY, BindParameter, CursorResult, Executable, Uuid, bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncSession

T = TypeVar("T")

_NOW = select(func.clock_timestamp())


@dataclass(frozen=True)
class Page(Generic[T]):
    """A part of a list. ``next_cursor`` continues after its last item; None: that was all."""

    items: Sequence[T]
    next_cursor: str | None


async def now(session: AsyncSession) -> datetime:
    """The database's time: the only one that decides about workspaces."""
    return cast(datetime, (await session.execute(_NOW)).scalar_one())


async def rows_written(session: AsyncSession, statement: Executable) -> int:
    """Run a write and tell how many rows it met. For a fenced one, zero means: not yours any more."""
    result = cast("CursorResult[Any]", await session.execute(statement))
    return result.rowcount


def uuid_array(ids: Iterable[UUID]) -> "BindParameter[Sequence[UUID]]":
    """One parameter however many ids there are: the statement is prepared once."""
    return bindparam(None, list(ids), type_=ARRAY(Uuid()))


def like_pattern(fragment: str) -> str:
    """``fragment`` anywhere in the text, its own ``%`` and ``_`` taken literally (escape: backslash)."""
    escaped = fragment.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"
