"""Load TTL candidates for the TTL manager, set-based and from indexes.

Only candidates: activity is in Redis, and the service that changes the desired state checks again under the
row's lock.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import DateTime, Integer, Uuid, bindparam, or_
from sqlmodel import col, select

from codehub.domain.workspace import WorkspaceView
from codehub.store.db.session import Session
from codehub.store.schema.tables import STANDBY_CANDIDATE, Workspace
from codehub.store.workspaces.records import VIEW

FIRST_PAGE = UUID(int=0)

_NOW = bindparam("at", type_=DateTime(timezone=True))
_MOST = bindparam("most", type_=Integer())
_RUNNING = (
    select(VIEW)
    .where(
        STANDBY_CANDIDATE,
        or_(col(Workspace.awake_until).is_(None), col(Workspace.awake_until) <= _NOW),
        or_(col(Workspace.active_until).is_(None), col(Workspace.active_until) <= _NOW),
        col(Workspace.id) > bindparam("after", type_=Uuid()),
    )
    .order_by(col(Workspace.id))
    .limit(_MOST)
)
_ARCHIVE_DUE = (
    select(VIEW)
    .where(col(Workspace.archive_due_at) < _NOW)
    .order_by(col(Workspace.archive_due_at))
    .limit(_MOST)
)


async def load_standby_candidates(
    session: Session, *, now: datetime, after: UUID, limit: int
) -> list[WorkspaceView]:
    """Load up to ``limit`` running workspaces, by id after ``after`` (``FIRST_PAGE``).

    They may be put to standby if Redis shows no activity.
    """
    rows = await session.exec(_RUNNING, {"at": now, "after": after, "most": limit})
    return sorted(rows, key=lambda ws: ws.id)


async def load_archive_candidates(session: Session, *, now: datetime, limit: int) -> list[WorkspaceView]:
    """Load up to ``limit`` workspaces in standby past their archive TTL, oldest first."""
    return list(await session.exec(_ARCHIVE_DUE, {"at": now, "most": limit}))
