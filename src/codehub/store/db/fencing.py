"""Run one statement as a fenced transaction of its own, in one round trip.

A leader's transaction begins, holds its term, reads or writes, and commits: four round trips, of which only
one does work. Where a single statement is enough, the term is part of it instead: PostgreSQL runs every
statement outside a transaction as a transaction.

- A read returns rows only while the term lasts, and the database's time with them.
- A write locks the term's row ``FOR SHARE`` like a transaction does (``store/cluster/terms``), and joins it:
  a successor waits until the statement is committed; once it has begun its term, the join matches no row and
  nothing is written. If the process dies in between, the server ends the statement or has committed it.
"""

from dataclasses import dataclass
from datetime import datetime
from weakref import WeakKeyDictionary

from sqlalchemy import (
    Executable,
    Function,
    Text,
    Update,
    bindparam,
    literal,
    select,
    true,
)
from sqlalchemy.sql.selectable import SelectBase
from sqlmodel import col

from codehub.store.db.prepared import Prepared
from codehub.store.db.row_builder import columns_of
from codehub.store.db.session import ConnectionSource, Params, Rows, Session, Written
from codehub.store.errors import TermOver
from codehub.store.schema.tables import SystemLock, timestamptz

_LEADING_COLUMNS = 2  # the database's time, and whether there is a row at all

_CURRENT_TERM = (
    col(SystemLock.lock_name) == bindparam("fence_name"),
    col(SystemLock.epoch) == bindparam("fence_epoch"),
)
_NOW = Function("clock_timestamp", type_=timestamptz).label("now")
_ACTING = Function(
    "set_config", "codehub.actor", bindparam("fence_actor", type_=Text()), True, type_=Text()
).label("acting")
_IS_ROW = true().label("is_row")
_READ_TERM = select(_NOW).where(*_CURRENT_TERM)
_LOCK_TERM = select(_NOW, _ACTING, true().label("held")).where(*_CURRENT_TERM).with_for_update(read=True)


@dataclass(frozen=True)
class Fence:
    """The term a statement belongs to, and the actor of its changes.

    The actor is as in ``store/db/context``.
    """

    lock_name: str
    epoch: int
    actor: str = ""


class FencedSession(Session):
    """Takes one statement. Fenced: raises ``TermOver`` if the term has ended.

    Then nothing was written.
    """

    def __init__(self, source: ConnectionSource, fence: Fence) -> None:
        super().__init__(source, autocommit=True)
        self._fence = {
            "fence_name": fence.lock_name,
            "fence_epoch": fence.epoch,
            "fence_actor": fence.actor,
        }
        self._now: datetime | None = None

    @property
    def now(self) -> datetime:
        """The database's time when the statement ran."""
        assert self._now is not None, "nothing was asked yet"
        return self._now

    async def _run(self, statement: Executable, params: Params) -> object:
        if self._now is not None:
            raise RuntimeError("a second statement would be another transaction")
        fenced = _fenced(statement)
        records = await fenced.fetch(await self._ready(), {**params, **self._fence})
        if not records:
            raise TermOver("another term has begun")
        self._now = records[0]["now"]
        found = [record for record in records if record["is_row"]]
        return Rows(fenced.read(found)) if fenced.returns_rows else Written(len(found))


_known: WeakKeyDictionary[Executable, Prepared] = WeakKeyDictionary()


def _fenced(statement: Executable) -> Prepared:
    """Return the statement with its fence. Compiled once, like ``prepared``."""
    known = _known.get(statement)
    if known is None:
        known = _known[statement] = Prepared(
            _with_fence(statement), asked=statement, leading=_LEADING_COLUMNS
        )
    return known


def _with_fence(statement: Executable) -> Executable:
    """Join term and statement: at least one row while the term lasts.

    ``is_row`` is true where the statement itself returned one.
    """
    if isinstance(statement, Update):
        term = _LOCK_TERM.cte("term")
        writing = statement.where(term.c.held)
        if not columns_of(statement):
            writing = writing.returning(literal(1).label("written"))
        rows = select(writing.cte("written"), _IS_ROW).subquery("found")
    elif isinstance(statement, SelectBase):
        term = _READ_TERM.cte("term")
        rows = select(statement.subquery("asked"), _IS_ROW).subquery("found")
    else:
        raise TypeError(f"cannot be fenced: {type(statement).__name__}")
    columns = (column for column in rows.c if column.key != "is_row")
    return select(term.c.now, rows.c.is_row, *columns).select_from(term.outerjoin(rows, true()))
