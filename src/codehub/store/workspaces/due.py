"""Load the Reconciler's work: rows that need a step, and rows with one in flight.

Both come from partial indexes and are bounded, so a tick costs as much as there is to do, not as much as
there are workspaces. ``domain/plan`` decides on each row.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import Integer, bindparam, cast, or_, union_all
from sqlmodel import col, select

from codehub.domain.states import DesiredState
from codehub.domain.tick_plan import Lane
from codehub.domain.workspace import WorkspaceView
from codehub.store.db.session import Session
from codehub.store.db.statements import clock, json_text
from codehub.store.schema.tables import IN_FLIGHT, Workspace, timestamptz
from codehub.store.workspaces.records import VIEW


@dataclass(frozen=True)
class DueWork:
    """The workspaces one tick plans."""

    in_flight: Sequence[WorkspaceView]
    due: Mapping[Lane, Sequence[WorkspaceView]]

    @property
    def waiting(self) -> list[WorkspaceView]:
        return [ws for found in self.due.values() for ws in found]


# Sent with every tick, hence built once and combined into one statement.
_ROW = select(VIEW, col(Workspace.due_lane), col(Workspace.due_since))
_BACKED_OFF = or_(
    col(Workspace.last_retry_at).is_(None), col(Workspace.last_retry_at) <= bindparam("retried_before")
)
# An archiving that was given up is retried hours later: until then it must not take the place of due rows. A row
# that was deleted, whose desired state is no longer PENDING, or that is to return to another archive is due at once.
_ARCHIVE_RETRY_AT = cast(json_text(col(Workspace.home_ctx), "archive_retry_at"), timestamptz)
_NOT_GIVEN_UP = or_(
    col(Workspace.deleted_at).is_not(None),
    col(Workspace.desired_state) != DesiredState.PENDING,
    col(Workspace.restore_from).is_not(None),
    _ARCHIVE_RETRY_AT.is_(None),
    clock() >= _ARCHIVE_RETRY_AT,
)
_IN_FLIGHT_NOW = _ROW.where(IN_FLIGHT, _BACKED_OFF)
_DUE = [
    _ROW.where(
        col(Workspace.due_lane) == lane.value,
        or_(_BACKED_OFF, col(Workspace.deleted_at).is_not(None)),
        _NOT_GIVEN_UP,
    )
    .order_by(col(Workspace.due_since), col(Workspace.id))
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
    rows = await session.exec(_IN_FLIGHT_NOW, {"retried_before": retried_before})
    return sorted((ws for ws, _, _ in rows), key=_by_id)


async def load_work(session: Session, *, limit: int, retried_before: datetime) -> DueWork:
    """Load operations in flight and up to ``limit`` due workspaces per lane.

    The oldest first. A workspace that crashed after ``retried_before`` is backing off and left out, unless
    its person has deleted it meanwhile.
    """
    rows = await session.exec(_WORK, {"retried_before": retried_before, "most": limit})
    in_flight: list[WorkspaceView] = []
    due: dict[Lane, list[tuple[datetime, WorkspaceView]]] = {lane: [] for lane in Lane}
    for ws, lane, since in rows:
        if lane is None or since is None:
            in_flight.append(ws)
        else:
            due[Lane(lane)].append((since, ws))
    return DueWork(
        sorted(in_flight, key=_by_id),
        {lane: [ws for _, ws in sorted(found, key=_oldest_first)] for lane, found in due.items()},
    )


def _by_id(ws: WorkspaceView) -> UUID:
    return ws.id


def _oldest_first(waiting: tuple[datetime, WorkspaceView]) -> tuple[datetime, UUID]:
    since, ws = waiting
    return (since, ws.id)
