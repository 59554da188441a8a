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
    false,
    func,
    or_,
    text,
    tuple_,
    update,
)
from sqlalchemy import select as select_columns
from sqlalchemy.dialects.postgresql import array
from sqlmodel import col, select

from codehub.domain.errors import ErrorInfo
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.store.db.records import record
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Session
from codehub.store.db.statements import json_flag, param_rows, params, rows_written
from codehub.store.schema.tables import (
    IN_FLIGHT,
    NOT_GONE,
    Workspace,
    health_status_type,
    observed_status_type,
)
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


_HAS_ERROR = col(Workspace.error_info).is_not(None)
_IS_TERMINAL = func.coalesce(json_flag(col(Workspace.error_info), "is_terminal"), false())

FIRST_PAGE = UUID(int=0)

_PAGE = (
    select_columns(
        col(Workspace.id),
        col(Workspace.desired_state),
        col(Workspace.observed_status),
        col(Workspace.health_status),
        col(Workspace.operation),
        col(Workspace.deleted_at),
        _HAS_ERROR.label("has_error"),
        _IS_TERMINAL.label("is_terminal"),
    )
    .where(col(Workspace.watched), col(Workspace.id) > bindparam("after", type_=Uuid()))
    .order_by(col(Workspace.id))
    .limit(bindparam("most", type_=Integer()))
    .subquery("page")
)
_WATCHED = select(record(Observable, _PAGE, ids=func.array_agg(_PAGE.c.id, type_=ARRAY(Uuid())))).group_by(
    *(column for column in _PAGE.c if column.key != "id")
)
_NAMED = select(
    record(
        Observable,
        Workspace,
        ids=array([col(Workspace.id)]),
        has_error=_HAS_ERROR,
        is_terminal=_IS_TERMINAL,
    )
).where(col(Workspace.id) == any_(bindparam("ids", type_=ARRAY(Uuid()))), NOT_FINAL)

_SEEN_AT = bindparam("seen_at", type_=DateTime(timezone=True))
_SEEN = param_rows("seen", id=Uuid(), observed_status=observed_status_type, health_status=health_status_type)
_WRITE = (
    update(w)
    .where(
        col(Workspace.id) == _SEEN.c.id,
        tuple_(col(Workspace.observed_status), col(Workspace.health_status)).is_distinct_from(
            tuple_(_SEEN.c.observed_status, _SEEN.c.health_status)
        ),
        or_(col(Workspace.observed_at).is_(None), col(Workspace.observed_at) <= _SEEN_AT),
        # A person may have recovered it after the observation began: only a later one sets health to OK again,
        # so that the next plan takes account of a disk that was mounted again before the recovery.
        or_(
            col(Workspace.health_status) == HealthStatus.OK,
            _SEEN.c.health_status == HealthStatus.ERROR,
            col(Workspace.updated_at) <= _SEEN_AT,
        ),
        # DELETED is final with nothing in flight, and written only if a person asked for it.
        NOT_FINAL,
        or_(_SEEN.c.observed_status != ObservedStatus.DELETED, col(Workspace.deleted_at).is_not(None)),
    )
    .values(
        observed_status=_SEEN.c.observed_status, health_status=_SEEN.c.health_status, observed_at=_SEEN_AT
    )
    .returning(col(Workspace.id))
)
_STAMP = (
    update(w)
    .where(
        col(Workspace.id) == any_(bindparam("ids", type_=ARRAY(Uuid()))),
        IN_FLIGHT,
        or_(col(Workspace.observed_at).is_(None), col(Workspace.observed_at) < _SEEN_AT),
    )
    .values(observed_at=_SEEN_AT)
)


async def load_watched(session: Session, *, after: UUID, limit: int) -> list[Observable]:
    """Load up to ``limit`` rows not at rest, by id after ``after`` (``FIRST_PAGE``).

    Rows at rest that the runtime reports are loaded by ``load_named``.
    """
    rows = await session.exec(_WATCHED, {"after": after, "most": limit})
    return list(rows)


async def load_named(session: Session, ids: Collection[UUID]) -> list[Observable]:
    """Load the rows of these ids that an observation may change.

    An id missing from the result is unknown here or DELETED.
    """
    rows = await session.exec(_NAMED, {"ids": list(ids)})
    return list(rows)


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
    return [each for (each,) in await session.exec(_WRITE, {**seen, "seen_at": observed_at})]


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
        select(col(Workspace.id))
        .where(NOT_GONE, col(Workspace.observed_at) < older_than)
        .order_by(col(Workspace.observed_at))
        .limit(limit)
        .with_for_update(key_share=True, skip_locked=True)
        .cte("oldest")
    )
    statement = update(w).where(col(Workspace.id) == oldest.c.id).values(observed_at=observed_at)
    return await rows_written(session, statement)


async def set_invariant_error(session: Session, workspace_id: UUID, error: ErrorInfo) -> bool:
    """Set the Observer's error, only where ``error_info`` is NULL (ADR 0001)."""
    statement = (
        update(w)
        .where(col(Workspace.id) == workspace_id, col(Workspace.error_info).is_(None), NOT_GONE)
        .values(error_info=error.as_json())
    )
    return await rows_written(session, statement) == 1
