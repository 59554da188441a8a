"""What the Reconciler has to look at: rows that need a step, and rows with a step in flight.

Both come from partial indexes and are bounded, so a tick costs what there is to do and not what there
is. ``domain/plan`` has the last word on each row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Integer, bindparam, cast, func, or_, select, union_all

from codehub.domain.states import DesiredState
from codehub.domain.tick_plan import Lane
from codehub.domain.workspace import WorkspaceView
from codehub.store.db.session import Session
from codehub.store.schema.tables import IN_FLIGHT, timestamptz
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import VIEW_COLUMNS, AnyRow, to_view


@dataclass(frozen=True)
class Work:
    """What a tick looks at."""

    in_flight: Sequence[WorkspaceView]
    due: Mapping[Lane, Sequence[WorkspaceView]]

    @property
    def waiting(self) -> list[WorkspaceView]:
        return [ws for found in self.due.values() for ws in found]


# Sent with every tick, hence built once; and in one statement, because it is sent with every tick.
_COLUMNS = (*VIEW_COLUMNS, w.c.due_lane, w.c.due_since)
_RESTED = or_(w.c.last_retry_at.is_(None), w.c.last_retry_at <= bindparam("retried_before"))
# An archiving that was given up comes back hours later: until then it must not stand before those that are
# due. Its person may want something else of it meanwhile, hence "wanted PENDING".
_ARCHIVE_RETRY_AT = cast(w.c.home_ctx["archive_retry_at"].astext, timestamptz)
_NOT_GIVEN_UP = or_(
    w.c.deleted_at.is_not(None),
    w.c.desired_state != DesiredState.PENDING,
    _ARCHIVE_RETRY_AT.is_(None),
    func.clock_timestamp() >= _ARCHIVE_RETRY_AT,
)
_IN_FLIGHT_NOW = select(*_COLUMNS).where(IN_FLIGHT, _RESTED)
_DUE = [
    select(*_COLUMNS)
    .where(w.c.due_lane == lane.value, or_(_RESTED, w.c.deleted_at.is_not(None)), _NOT_GIVEN_UP)
    .order_by(w.c.due_since, w.c.id)
    .limit(bindparam("most", type_=Integer()))
    for lane in Lane
]
_WORK = union_all(_IN_FLIGHT_NOW, *_DUE)


async def load_in_flight(session: Session, *, retried_before: datetime) -> list[WorkspaceView]:
    """Every workspace with an operation in flight, except those that failed after ``retried_before``.

    Pass the shortest back-off there is: a row comes back as soon as it could be due, and
    ``domain/retry`` knows about the longer ones. Not limited: slots bound how many there are.
    """
    rows = await session.execute(_IN_FLIGHT_NOW, {"retried_before": retried_before})
    return sorted((to_view(row) for row in rows), key=_by_id)


async def load_work(session: Session, *, limit: int, retried_before: datetime) -> Work:
    """What is in flight, and up to ``limit`` workspaces of each lane that need a step, the oldest first.

    One that crashed after ``retried_before`` is backing off and takes nobody's place here, unless its
    person has deleted it meanwhile.
    """
    rows = (await session.execute(_WORK, {"retried_before": retried_before, "most": limit})).all()
    in_flight = sorted((to_view(row) for row in rows if row.due_lane is None), key=_by_id)
    due: dict[Lane, list[WorkspaceView]] = {lane: [] for lane in Lane}
    for row in sorted((row for row in rows if row.due_lane is not None), key=_oldest_first):
        due[Lane(row.due_lane)].append(to_view(row))
    return Work(in_flight, due)


def _by_id(ws: WorkspaceView) -> UUID:
    return ws.id


def _oldest_first(row: AnyRow) -> tuple[datetime, UUID]:
    return (row.due_since, row.id)
