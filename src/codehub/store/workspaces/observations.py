"""Read and write observations in bulk, writing only what changed.

Runtimes are listed as a whole; the database is read page by page, so that no statement and no transaction
grows with the number of workspaces. Rows at rest (nothing there, nothing wanted, nothing wrong) are not
loaded: with most of 100 000 homes archived, a tick reads the rest. Rows of a page with equal values are
returned as one group, because ten thousand workspaces in standby are what an idle Observer reads.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    DateTime,
    Integer,
    Uuid,
    any_,
    bindparam,
    func,
    or_,
    select,
    text,
    tuple_,
    update,
)

from codehub.domain.errors import ErrorInfo
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Session
from codehub.store.db.statements import param_rows, params, rows_written
from codehub.store.schema.tables import IN_FLIGHT, NOT_GONE, health_status_type, observed_status_type
from codehub.store.schema.tables import workspaces as w

NOT_FINAL = text("(workspaces.observed_status <> 'DELETED' OR workspaces.operation <> 'NONE')")
"""DELETED is final only with no operation in flight. An observation that began before an action ended cannot complete
its operation, and a volume may have been made after it: until nothing is in flight, the row is observed again."""


@dataclass(frozen=True)
class Observable:
    """The columns an observation is compared with, equal for each of ``ids``."""

    ids: Sequence[UUID]
    desired_state: DesiredState
    observed_status: ObservedStatus
    health_status: HealthStatus
    operation: Operation
    deleted_at: datetime | None
    has_error: bool
    is_terminal: bool


@dataclass(frozen=True)
class Observed:
    """What was observed of a workspace, written if it differs from the row."""

    id: UUID
    observed_status: ObservedStatus
    health_status: HealthStatus


_RECORDED = (
    w.c.desired_state,
    w.c.observed_status,
    w.c.health_status,
    w.c.operation,
    w.c.deleted_at,
    w.c.error_info.is_not(None).label("has_error"),
    func.coalesce(w.c.error_info["is_terminal"].as_boolean(), False).label("is_terminal"),
)

FIRST_PAGE = UUID(int=0)

_PAGE = (
    select(w.c.id, *_RECORDED)
    .where(w.c.watched, w.c.id > bindparam("after", type_=Uuid()))
    .order_by(w.c.id)
    .limit(bindparam("most", type_=Integer()))
    .subquery("page")
)
_PAGE_RECORDED = [column for column in _PAGE.c if column.key != "id"]
_WATCHED = select(func.array_agg(_PAGE.c.id, type_=ARRAY(Uuid())).label("ids"), *_PAGE_RECORDED).group_by(
    *_PAGE_RECORDED
)
_NAMED = select(w.c.id, *_RECORDED).where(w.c.id == any_(bindparam("ids", type_=ARRAY(Uuid()))), NOT_FINAL)

_SEEN_AT = bindparam("seen_at", type_=DateTime(timezone=True))
_SEEN = param_rows("seen", id=Uuid(), observed_status=observed_status_type, health_status=health_status_type)
_WRITE = (
    update(w)
    .where(
        w.c.id == _SEEN.c.id,
        tuple_(w.c.observed_status, w.c.health_status).is_distinct_from(
            tuple_(_SEEN.c.observed_status, _SEEN.c.health_status)
        ),
        or_(w.c.observed_at.is_(None), w.c.observed_at <= _SEEN_AT),
        # A person may have recovered it after the observation began: only a later one sets health to OK again,
        # so that the next plan takes account of a disk that was mounted again before the recovery.
        or_(
            w.c.health_status == HealthStatus.OK,
            _SEEN.c.health_status == HealthStatus.ERROR,
            w.c.updated_at <= _SEEN_AT,
        ),
        # DELETED is final with nothing in flight, and written only if a person asked for it.
        NOT_FINAL,
        or_(_SEEN.c.observed_status != ObservedStatus.DELETED, w.c.deleted_at.is_not(None)),
    )
    .values(
        observed_status=_SEEN.c.observed_status, health_status=_SEEN.c.health_status, observed_at=_SEEN_AT
    )
    .returning(w.c.id)
)
_STAMP = (
    update(w)
    .where(
        w.c.id == any_(bindparam("ids", type_=ARRAY(Uuid()))),
        IN_FLIGHT,
        or_(w.c.observed_at.is_(None), w.c.observed_at < _SEEN_AT),
    )
    .values(observed_at=_SEEN_AT)
)


async def load_watched(session: Session, *, after: UUID, limit: int) -> list[Observable]:
    """Load up to ``limit`` rows not at rest, by id after ``after`` (``FIRST_PAGE``).

    Rows at rest that the runtime reports are loaded by ``load_named``.
    """
    rows = await session.execute(_WATCHED, {"after": after, "most": limit})
    return [Observable(*row) for row in rows]


async def load_named(session: Session, ids: Collection[UUID]) -> list[Observable]:
    """Load the rows of these ids that an observation may change.

    An id missing from the result is unknown here or DELETED.
    """
    rows = await session.execute(_NAMED, {"ids": list(ids)})
    return [Observable([each], *rest) for each, *rest in rows]


async def write_observations(
    session: Session, observed: Sequence[Observed], *, observed_at: datetime
) -> list[UUID]:
    """Write observations that differ from the row; return the ids changed.

    ``observed_at`` is the time from before the observation began, and never goes back: a slow full
    observation may end after a quick one of a single workspace. Such a late result is dropped for that
    workspace, being older than the row.
    """
    if not observed:
        return []
    await lock_in_order(session, [row.id for row in observed])
    seen = params(
        id=[row.id for row in observed],
        observed_status=[row.observed_status for row in observed],
        health_status=[row.health_status for row in observed],
    )
    return list((await session.execute(_WRITE, {**seen, "seen_at": observed_at})).scalars())


async def stamp_in_flight(session: Session, ids: Collection[UUID], *, observed_at: datetime) -> int:
    """Stamp unchanged rows that have an operation in flight.

    Completion waits for such a stamp, hence on every tick.
    """
    await lock_in_order(session, ids)
    return await rows_written(session, _STAMP, {"ids": list(ids), "seen_at": observed_at})


async def stamp_coarse(
    session: Session, *, observed_at: datetime, older_than: datetime, limit: int = 5000
) -> int:
    """Refresh up to ``limit`` of the oldest stamps after a full observation.

    None younger than ``older_than``. Only after an observation that could read everything: the stamp means
    "observed" for all rows. A row locked by another writer is left for the next time.
    """
    oldest = (
        select(w.c.id)
        .where(NOT_GONE, w.c.observed_at < older_than)
        .order_by(w.c.observed_at)
        .limit(limit)
        .with_for_update(key_share=True, skip_locked=True)
        .cte("oldest")
    )
    statement = update(w).where(w.c.id == oldest.c.id).values(observed_at=observed_at)
    return await rows_written(session, statement)


async def set_invariant_error(session: Session, workspace_id: UUID, error: ErrorInfo) -> bool:
    """Set the Observer's error, only where ``error_info`` is NULL (ADR 0001)."""
    statement = (
        update(w)
        .where(w.c.id == workspace_id, w.c.error_info.is_(None), NOT_GONE)
        .values(error_info=error.as_json())
    )
    return await rows_written(session, statement) == 1
