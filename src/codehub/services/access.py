"""Record that workspaces are in use: ``last_access_at``, ``active_until`` and ``busy``.

Called by components, not by people. Coordinators pass their own fenced session, so that the stamp commits
together with its reason (a completed operation, a container that left RUNNING unasked).
"""

from collections.abc import Collection
from datetime import timedelta
from uuid import UUID

from codehub.domain.busy import Busy
from codehub.services.intent_store import IntentStore
from codehub.store import control
from codehub.store.db import statements
from codehub.store.db.session import Session
from codehub.store.workspaces import intents


async def touch(session: Session, *ids: UUID, store: IntentStore = control) -> None:
    """Set ``last_access_at`` to now.

    So that after a host's reboot or a restore a workspace is not archived at once.
    """
    if ids:
        await store.touch(session, ids)


async def mark_in_use(session: Session, ids: Collection[UUID], *, for_: timedelta) -> None:
    """Extend ``active_until`` in the database, for a proxy that cannot reach Redis."""
    if ids:
        now = await statements.now(session)
        await intents.extend_active_until(session, ids, now + for_)


async def mark_busy(
    session: Session, workspace_id: UUID, busy: Busy | None, *, store: IntentStore = control
) -> None:
    """Record that a workspace works by itself, or (None) that it has ended."""
    await store.set_busy(session, workspace_id, busy)
