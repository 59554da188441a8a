"""Record that workspaces are in use: ``last_access_at`` and ``active_until``.

Called by components, not by people. Coordinators pass their own fenced session, so that the stamp commits
together with its reason (a completed operation, a container that left RUNNING unasked).
"""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from codehub.store.db import statements
from codehub.store.db.session import Session
from codehub.store.workspaces import intents


async def touch(session: Session, *ids: UUID) -> None:
    """Set ``last_access_at`` to now.

    So that after a host's reboot or a restore a workspace is not archived at once.
    """
    if ids:
        await intents.touch(session, ids)


async def mark_in_use(session: Session, ids: Collection[UUID], *, for_: timedelta) -> None:
    """Extend ``active_until`` in the database, for a proxy that cannot reach Redis."""
    if ids:
        now = await statements.now(session)
        await intents.extend_active_until(session, ids, now + for_)
