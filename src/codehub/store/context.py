"""Who acts and why, for the timeline.

The trigger that appends to ``workspace_events`` reads two settings that live exactly as long as the
transaction: nothing has to be passed through every query, and a pooled connection carries nobody's
name into the next request.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

_SET = text("SELECT set_config('codehub.actor', :actor, true), set_config('codehub.cause', :cause, true)")


async def set_actor(session: AsyncSession, actor: str, cause: str = "") -> None:
    """From here to the end of the transaction, changes are ``actor``'s, because of ``cause``."""
    await session.execute(_SET, {"actor": actor, "cause": cause})
