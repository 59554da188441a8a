"""Who all replicas on this database are together."""

from uuid import UUID, uuid4

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from codehub.store.tables import installation as i


async def get_or_create_id(session: AsyncSession) -> UUID:
    """The id that labels every container and volume. Replicas that start at once agree on one.

    The loser of the race waits for the winner's commit and then reads the winner's id: an insert that
    conflicts returns nothing, and the select after it sees what was committed meanwhile.
    """
    await session.execute(insert(i).values(id=uuid4()).on_conflict_do_nothing())
    installation_id: UUID = (await session.execute(select(i.c.id))).scalar_one()
    return installation_id
