"""Read the start queue: workspaces that wait for a running place (``queued_at``).

Reading alone decides nothing: ``services/places`` reads it under the limits' lock, so that who is admitted and who is
refused see the same queue. A workspace leaves it with the statement that changes its desired state or deletes it
(``intents.OUT_OF_QUEUE``).
"""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, DateTime, ScalarSelect, cast, func
from sqlalchemy.orm import aliased
from sqlmodel import col, select

from codehub.domain.start_queue import Queued, RunningAges, StartQueue
from codehub.domain.states import DesiredState
from codehub.store.db.records import Record
from codehub.store.db.session import Session
from codehub.store.db.statements import clock, json_text
from codehub.store.schema.tables import Workspace

_q = aliased(Workspace, name="queued")
_h = aliased(Workspace, name="holding")
_IS_QUEUED = (
    col(_q.queued_at).is_not(None),
    col(_q.deleted_at).is_(None),
    col(_q.desired_state) != DesiredState.RUNNING,
)


def _held(*of: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(func.count()).select_from(_h).where(col(_h.holds_place), *of).scalar_subquery()


_QUEUE = select(
    Record(Queued, _q.id, _q.owner_id, _q.queued_at),
    _held(col(_h.owner_id) == col(_q.owner_id)),
    _held(),
).where(*_IS_QUEUED)

_SINCE = func.coalesce(
    cast(json_text(col(Workspace.home_ctx), "ran_at"), DateTime(timezone=True)), col(Workspace.last_access_at)
)
_AGES = (
    select(
        Workspace.owner_id,
        func.count(),
        cast(func.sum(func.greatest(0, func.extract("epoch", clock() - _SINCE))), BigInteger()),
    )
    .where(col(Workspace.holds_place))
    .group_by(col(Workspace.owner_id))
)


def queued_count() -> ScalarSelect[int]:
    """Count who waits, as a column of another query."""
    return select(func.count()).select_from(_q).where(*_IS_QUEUED).scalar_subquery()


async def load_start_queue(session: Session) -> StartQueue:
    """Load who waits and the places held, in one statement. Exact under ``lock_limits``, a snapshot otherwise."""
    rows = list(await session.exec(_QUEUE))
    return StartQueue(
        sorted((each for each, _, _ in rows), key=lambda each: each.workspace_id),
        {each.owner_id: held for each, held, _ in rows},
        rows[0][2] if rows else 0,
    )


async def running_ages(session: Session) -> dict[UUID | None, RunningAges]:
    """How long each owner's workspaces have been running; None: everybody's."""
    found: dict[UUID | None, RunningAges] = {}
    count, seconds = 0, 0
    for owner, own_count, own_seconds in await session.exec(_AGES):
        found[owner] = RunningAges(own_count, timedelta(seconds=own_seconds / own_count))
        count, seconds = count + own_count, seconds + own_seconds
    found[None] = RunningAges(count, timedelta(seconds=seconds / count) if count else None)
    return found
