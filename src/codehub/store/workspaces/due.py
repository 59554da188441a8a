"""Load the Reconciler's work: rows that need a step, and rows with one in flight.

Both come from partial indexes and are bounded, so a tick costs as much as there is to do, not as much as
there are workspaces. ``domain/plan`` decides on each row.
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
    """The workspaces one tick plans."""

    in_flight: Sequence[WorkspaceView]
    due: Mapping[Lane, Sequence[WorkspaceView]]

    @property
    def waiting(self) -> list[WorkspaceView]:
        return [ws for found in self.due.values() for ws in found]


# Sent with every tick, hence built once and combined into one statement.
_COLUMNS = (*VIEW_COLUMNS, w.c.due_lane, w.c.due_since)
_BACKED_OFF = or_(w.c.last_retry_at.is_(None), w.c.last_retry_at <= bindparam("retried_before"))
# An archiving that was given up is retried hours later: until then it must not take the place of due rows. A row
# that was deleted, or whose desired state is no longer PENDING, is due at once.
_ARCHIVE_RETRY_AT = cast(w.c.home_ctx["archive_retry_at"].astext, timestamptz)
_NOT_GIVEN_UP = or_(
    w.c.deleted_at.is_not(None),
    w.c.desired_state != DesiredState.PENDING,
    _ARCHIVE_RETRY_AT.is_(None),
    func.clock_timestamp() >= _ARCHIVE_RETRY_AT,
)
_IN_FLIGHT_NOW = select(*_COLUMNS).where(IN_FLIGHT, _BACKED_OFF)
_DUE = [
    select(*_COLUMNS)
    .where(w.c.due_lane == lane.value, or_(_BACKED_OFF, w.c.deleted_at.is_not(None)), _NOT_GIVEN_UP)
    .order_by(w.c.due_since, w.c.id)
    .limit(bindparam("most", type_=Integer()))
    for lane in Lane
]
_WORK = union_all(_IN_FLIGHT_NOW, *_DUE)


async def load_in_flight(session: Session, *, retried_before: datetime) -> list[WorkspaceView]:
    """Load workspaces with an operation in flight, except those backing off.

    Those that failed after ``retried_before`` are left out. Pass the shortest back-off there is: a row is
    loaded as soon as it could be due, and ``domain/policy.retry_at`` applies the longer ones. Not limited: slots bound
    how many there are.
    """
    rows = await session.execute(_IN_FLIGHT_NOW, {"retried_before": retried_before})
    return sorted((to_view(row) for row in rows), key=_by_id)


async def load_work(session: Session, *, limit: int, retried_before: datetime) -> Work:
    """Load operations in flight and up to ``limit`` due workspaces per lane.

    The oldest first. A workspace that crashed after ``retried_before`` is backing off and left out, unless
    its person has deleted it meanwhile.
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
