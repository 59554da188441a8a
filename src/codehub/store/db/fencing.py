"""Run one statement as a fenced transaction of its own, in one round trip.

A leader's transaction begins, holds its term, reads or writes, and commits: four round trips, of which only
one does work. Where a single statement is enough, the term is part of it instead: PostgreSQL runs every
statement outside a transaction as a transaction.

- A read returns rows only while the term lasts, and the database's time with them.
- A write locks the term's row ``FOR SHARE`` like a transaction does (``store/cluster/terms``), and joins it:
  a successor waits until the statement is committed; once it has begun its term, the join matches no row and
  nothing is written. If the process dies in between, the server ends the statement or has committed it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import CTE, Executable, Select, Update, bindparam, func, literal, select, true
from sqlalchemy.sql.selectable import SelectBase

from codehub.store.db.session import ConnectionSource, Prepared, Rows, Session
from codehub.store.errors import TermOver
from codehub.store.schema.tables import system_locks as locks

_LEADING_COLUMNS = 2  # the database's time, and whether there is a row at all

_CURRENT_TERM = (locks.c.lock_name == bindparam("fence_name"), locks.c.epoch == bindparam("fence_epoch"))
_NOW = func.clock_timestamp().label("now")
_ACTING = func.set_config("codehub.actor", bindparam("fence_actor"), True).label("acting")
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

    async def execute(self, statement: Executable, params: Mapping[str, Any] | None = None) -> Rows[Any]:
        """Run the one statement. Raises ``TermOver`` if the term has ended."""
        if self._now is not None:
            raise RuntimeError("a second statement would be another transaction")
        prepared, returns_rows = _fenced(statement)
        records = await prepared.fetch(await self._ready(), {**(params or {}), **self._fence})
        if not records:
            raise TermOver("another term has begun")
        self._now = records[0]["now"]
        found = [record for record in records if record["is_row"]]
        if not returns_rows:
            return Rows((), len(found))
        return Rows(prepared.read(found, beginning=_LEADING_COLUMNS))


_known: WeakKeyDictionary[Executable, tuple[Prepared, bool]] = WeakKeyDictionary()


def _fenced(statement: Executable) -> tuple[Prepared, bool]:
    """Return the statement with its fence, and whether it returns rows.

    Compiled once per statement, like ``session.prepared``.
    """
    known = _known.get(statement)
    if known is None:
        if isinstance(statement, Update):
            known = Prepared(_fenced_write(statement)), bool(statement.exported_columns)
        elif isinstance(statement, SelectBase):
            known = Prepared(_joined(_READ_TERM.cte("term"), select(statement.subquery("asked")))), True
        else:
            raise TypeError(f"cannot be fenced: {type(statement).__name__}")
        _known[statement] = known
    return known


def _fenced_write(statement: Update) -> Executable:
    term = _LOCK_TERM.cte("term")
    writing = statement.where(term.c.held)
    if not statement.exported_columns:
        writing = writing.returning(literal(1).label("written"))
    return _joined(term, select(writing.cte("written")))


def _joined(term: CTE, found: Select[Any]) -> Executable:
    """Join term and statement: at least one row while the term lasts.

    ``is_row`` is true where the statement itself returned one.
    """
    rows = found.add_columns(true().label("is_row")).subquery("found")
    columns = (column for column in rows.c if column.key != "is_row")
    return select(term.c.now, rows.c.is_row, *columns).select_from(term.outerjoin(rows, true()))
