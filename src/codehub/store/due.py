"""What the Reconciler has to look at: rows that need a step, and rows with a step in flight.

Both come from partial indexes and are bounded, so a tick costs what there is to do and not what there
is. ``domain/plan`` has the last word on each row.
"""

from datetime import datetime
from enum import StrEnum

from sqlalchemy import Integer, bindparam, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from codehub.domain.states import Operation
from codehub.domain.workspace import WorkspaceView
from codehub.store.records import VIEW_COLUMNS, to_view
from codehub.store.tables import IN_FLIGHT
from codehub.store.tables import workspaces as w


class Lane(StrEnum):
    """Steps that share slots. A home that waits for a storage slot never stands before a start."""

    CONTROL = "control"
    STORAGE = "storage"


# Sent with every tick, hence built once.
_RESTED = or_(w.c.last_retry_at.is_(None), w.c.last_retry_at <= bindparam("retried_before"))
_DUE = (
    select(*VIEW_COLUMNS)
    .where(w.c.due_lane == bindparam("lane"), or_(_RESTED, w.c.deleted_at.is_not(None)))
    .order_by(w.c.due_since, w.c.id)
    .limit(bindparam("most", type_=Integer()))
)
_IN_FLIGHT_NOW = select(*VIEW_COLUMNS).where(IN_FLIGHT, _RESTED).order_by(w.c.id)


async def load_due(
    session: AsyncSession, lane: Lane, *, limit: int, retried_before: datetime
) -> list[WorkspaceView]:
    """Up to ``limit`` workspaces that need a step in this lane, the oldest wish first.

    One that crashed after ``retried_before`` is backing off and takes nobody's place here, unless its
    person has deleted it meanwhile.
    """
    given = {"lane": lane.value, "retried_before": retried_before, "most": limit}
    return [to_view(row) for row in await session.execute(_DUE, given)]


async def load_in_flight(session: AsyncSession, *, retried_before: datetime) -> list[WorkspaceView]:
    """Every workspace with an operation in flight, except those that failed after ``retried_before``.

    Pass the shortest back-off there is: a row comes back as soon as it could be due, and
    ``domain/retry`` knows about the longer ones. Not limited: slots bound how many there are.
    """
    rows = await session.execute(_IN_FLIGHT_NOW, {"retried_before": retried_before})
    return [to_view(row) for row in rows]


async def count_in_flight(session: AsyncSession) -> dict[Operation, int]:
    """How many operations of each kind hold a slot, those that back off included."""
    rows = await session.execute(select(w.c.operation).where(IN_FLIGHT))
    counts: dict[Operation, int] = {}
    for operation in rows.scalars():
        counts[operation] = counts.get(operation, 0) + 1
    return counts
