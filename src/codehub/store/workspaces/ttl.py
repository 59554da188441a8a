"""Whose time is over: candidates for the TTL manager, set-based and from indexes.

Only candidates. Activity lives in Redis, and the desired state is changed by the service layer, which looks again
under the row's lock.
"""

from datetime import datetime
from uuid import UUID

from sqlalchemy import DateTime, Integer, Uuid, bindparam, or_, select

from codehub.domain.workspace import WorkspaceView
from codehub.store.db.session import Session
from codehub.store.schema.tables import STANDBY_CANDIDATE
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import VIEW_COLUMNS, to_view

FIRST_PAGE = UUID(int=0)

_NOW = bindparam("at", type_=DateTime(timezone=True))
_MOST = bindparam("most", type_=Integer())
_RUNNING = (
    select(*VIEW_COLUMNS)
    .where(
        STANDBY_CANDIDATE,
        or_(w.c.awake_until.is_(None), w.c.awake_until <= _NOW),
        or_(w.c.active_until.is_(None), w.c.active_until <= _NOW),
        w.c.id > bindparam("after", type_=Uuid()),
    )
    .order_by(w.c.id)
    .limit(_MOST)
)
_FORGOTTEN = select(*VIEW_COLUMNS).where(w.c.archive_due_at < _NOW).order_by(w.c.archive_due_at).limit(_MOST)


async def load_standby_candidates(
    session: Session, *, now: datetime, after: UUID, limit: int
) -> list[WorkspaceView]:
    """Up to ``limit`` running workspaces, by id, beginning after ``after`` (``FIRST_PAGE``).

    They may be put to sleep if Redis says that nobody uses them.
    """
    rows = await session.execute(_RUNNING, {"at": now, "after": after, "most": limit})
    return sorted((to_view(row) for row in rows), key=lambda ws: ws.id)


async def load_archive_candidates(session: Session, *, now: datetime, limit: int) -> list[WorkspaceView]:
    """Sleeping workspaces whose archive TTL is over, the most forgotten ``limit``."""
    return [to_view(row) for row in await session.execute(_FORGOTTEN, {"at": now, "most": limit})]
