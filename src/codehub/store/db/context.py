"""Set actor and cause of a transaction, for the timeline.

The trigger that appends to ``workspace_events`` reads two settings that last exactly as long as the
transaction: nothing has to be passed through every query, and a pooled connection carries no actor into the
next request.
"""

from sqlalchemy import Function, Text, bindparam
from sqlmodel import select

from codehub.store.db.session import Session

ACTING = Function("set_config", "codehub.actor", bindparam("actor", type_=Text()), True, type_=Text())
BECAUSE = Function("set_config", "codehub.cause", bindparam("cause", type_=Text()), True, type_=Text())
"""Select either one along with a query that is sent anyway: no round trip of its own."""

_SET = select(ACTING, BECAUSE)


async def set_actor(session: Session, actor: str, cause: str = "") -> None:
    """Attribute the changes of this transaction to ``actor``, because of ``cause``."""
    await session.exec(_SET, {"actor": actor, "cause": cause})
