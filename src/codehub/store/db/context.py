"""Who acts and why, for the timeline.

The trigger that appends to ``workspace_events`` reads two settings that live exactly as long as the
transaction: nothing has to be passed through every query, and a pooled connection carries nobody's
name into the next request.
"""

from sqlalchemy import bindparam, func, select

from codehub.store.db.session import Session

ACTING = func.set_config("codehub.actor", bindparam("actor"), True)
BECAUSE = func.set_config("codehub.cause", bindparam("cause"), True)
"""Both to be selected along with something else that is asked anyway."""

_SET = select(ACTING, BECAUSE)


async def set_actor(session: Session, actor: str, cause: str = "") -> None:
    """From here to the end of the transaction, changes are ``actor``'s, because of ``cause``."""
    await session.execute(_SET, {"actor": actor, "cause": cause})
