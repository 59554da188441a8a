"""Whose time is over: candidates for the TTL manager, set-based and from indexes.

Only candidates. Activity lives in Redis, and the wish is changed by the service layer, which looks again
under the row's lock.
"""

from datetime import datetime

from sqlalchemy import or_, select

from codehub.domain.workspace import WorkspaceView
from codehub.store.records import VIEW_COLUMNS, to_view
from codehub.store.session import Session
from codehub.store.tables import STANDBY_CANDIDATE
from codehub.store.tables import workspaces as w


async def load_standby_candidates(session: Session, *, now: datetime) -> list[WorkspaceView]:
    """Running workspaces that may be put to sleep, if Redis says that nobody uses them."""
    statement = (
        select(*VIEW_COLUMNS)
        .where(
            STANDBY_CANDIDATE,
            or_(w.c.awake_until.is_(None), w.c.awake_until <= now),
            or_(w.c.active_until.is_(None), w.c.active_until <= now),
        )
        .order_by(w.c.id)
    )
    return [to_view(row) for row in await session.execute(statement)]


async def load_archive_candidates(
    session: Session, *, now: datetime, limit: int = 1000
) -> list[WorkspaceView]:
    """Sleeping workspaces whose archive TTL is over, the most forgotten first."""
    statement = (
        select(*VIEW_COLUMNS).where(w.c.archive_due_at < now).order_by(w.c.archive_due_at).limit(limit)
    )
    return [to_view(row) for row in await session.execute(statement)]
