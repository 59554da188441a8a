"""``last_access_at`` and ``active_until``: that a workspace counts as used, said by components.

Coordinators call these with their own fenced session, so that the stamp commits together with what
it is about (a completed operation, a container that left RUNNING unasked).
"""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from codehub.store.db import statements
from codehub.store.db.session import Session
from codehub.store.workspaces import intents


async def touch(session: Session, *ids: UUID) -> None:
    """These count as used now: a rebooted host or a fresh restore is not archived at once."""
    if ids:
        await intents.touch(session, ids)


async def say_in_use(session: Session, ids: Collection[UUID], *, for_: timedelta) -> None:
    """A proxy that cannot reach Redis vouches for these in the database instead."""
    if ids:
        now = await statements.now(session)
        await intents.extend_active_until(session, ids, now + for_)
