"""Count running places under a lock that keeps the count exact until the commit.

Counting and then writing is exact only if no other transaction counts in between. All transactions that may
take a place therefore queue at one advisory lock. It ends with the transaction, also when the process dies.

Lock order: first ``lock_limits``, then the row of a workspace. Coordinators lock rows and never this lock, so
there is no deadlock.
"""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import Uuid, bindparam, func, text
from sqlmodel import col, select

from codehub.store.db.context import ACTING, BECAUSE
from codehub.store.db.records import Record
from codehub.store.db.session import Session
from codehub.store.schema.tables import Workspace
from codehub.store.workspaces.records import RECORD, WorkspaceRecord
from codehub.store.workspaces.start_queue import queued_count

# Any constant that no other lock of CodeHub uses: "running" in ASCII.
LIMITS_LOCK_KEY = int.from_bytes(b"running", "big")


@dataclass(frozen=True)
class PlacesHeld:
    """Places held by one owner and in all, and how many workspaces wait for one."""

    user: int
    total: int
    queued: int


_LOCKED = "limits locked"
_LOCK = text("SELECT pg_advisory_xact_lock(:key)")
_OWNED = func.count().filter(col(Workspace.owner_id) == bindparam("owner", type_=Uuid()))
_HELD = Record(PlacesHeld, _OWNED, func.count(), queued_count())
_USAGE = select(_HELD).where(col(Workspace.holds_place))
_USAGE_FOR = select(_HELD, ACTING, BECAUSE).where(col(Workspace.holds_place))


async def lock_limits(session: Session) -> None:
    """Keep other transactions from taking a place until this one ends. Idempotent."""
    if not session.transaction_flags.get(_LOCKED):
        await session.exec(_LOCK, {"key": LIMITS_LOCK_KEY})
        session.transaction_flags[_LOCKED] = True


async def usage(session: Session, owner_id: UUID) -> PlacesHeld:
    """Count the places held. Exact under ``lock_limits``, a snapshot otherwise."""
    return (await session.exec(_USAGE, {"owner": owner_id})).one()


async def usage_for(session: Session, owner_id: UUID, *, actor: str, cause: str) -> PlacesHeld:
    """Count the places held, and set actor and cause in the same round trip.

    Actor and cause are as in ``store/db/context``.
    """
    params = {"owner": owner_id, "actor": actor, "cause": cause}
    held, _, _ = (await session.exec(_USAGE_FOR, params)).one()
    return held


async def running_of(session: Session, owner_id: UUID) -> list[WorkspaceRecord]:
    """List the workspaces holding this owner's places, for the page to stop one."""
    statement = (
        select(RECORD)
        .where(col(Workspace.holds_place), col(Workspace.owner_id) == owner_id)
        .order_by(col(Workspace.id))
    )
    return list(await session.exec(statement))
