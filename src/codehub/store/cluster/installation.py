"""The installation: one id and one secret for all replicas on this database."""

from dataclasses import dataclass, field
from secrets import token_bytes
from uuid import UUID, uuid4

from sqlalchemy.dialects.postgresql import insert
from sqlmodel import select

from codehub.store.db.session import Session
from codehub.store.schema.tables import Installation
from codehub.store.schema.tables import installation as i


@dataclass(frozen=True)
class InstallationRecord:
    """The installation's id and secret.

    ``id`` labels every container and volume; ``secret`` signs the messages replicas exchange.
    """

    id: UUID
    secret: bytes = field(repr=False)


async def get_or_create(session: Session) -> InstallationRecord:
    """Return the installation, creating it on first use. Safe under concurrent starts.

    The loser of the race waits for the winner's commit and then reads the winner's row: an insert that
    conflicts returns nothing, and the select after it sees what was committed meanwhile.
    """
    await session.exec(insert(i).values(id=uuid4(), secret=token_bytes(32)).on_conflict_do_nothing())
    found = (await session.exec(select(Installation))).one()
    return InstallationRecord(found.id, found.secret)
