"""Set actor and cause of a transaction, for the timeline.

The trigger that appends to ``workspace_events`` reads two settings that last exactly as long as the
transaction: nothing has to be passed through every query, and a pooled connection carries no actor into the
next request.
"""

from sqlalchemy import bindparam, func, select

from codehub.store.db.session import Session

ACTING = func.set_config("codehub.actor", bindparam("actor"), True)
BECAUSE = func.set_config("codehub.cause", bindparam("cause"), True)
"""Select either one along with a query that is sent anyway: no round trip of its own."""

_SET = select(ACTING, BECAUSE)


async def set_actor(session: Session, actor: str, cause: str = "") -> None:
    """Attribute the changes of this transaction to ``actor``, because of ``cause``."""
    await session.execute(_SET, {"actor": actor, "cause": cause})
