"""Public keys for the SSH gateway, found by their fingerprint. A removed key has no row."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
from sqlalchemy import any_, delete, func, insert, update
from sqlmodel import col, select

from codehub.store.accounts.users import USER, UserRecord
from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import clock, uuid_array
from codehub.store.errors import SshKeyTaken
from codehub.store.schema.tables import SshKey, User
from codehub.store.schema.tables import ssh_keys as k


@dataclass(frozen=True)
class SshKeyRecord:
    """A public key of a person. ``public_key``: type and key as OpenSSH writes them, without a comment."""

    id: UUID
    user_id: UUID
    name: str
    public_key: str
    fingerprint: str
    added_at: datetime
    last_used_at: datetime | None


_KEY = record(SshKeyRecord, SshKey)


async def create(
    session: Session, *, key_id: UUID, user_id: UUID, name: str, public_key: str, fingerprint: str
) -> SshKeyRecord:
    """Insert a key. Raises ``SshKeyTaken``, whoever has it; the transaction stays usable."""
    statement = (
        insert(k)
        .values(id=key_id, user_id=user_id, name=name, public_key=public_key, fingerprint=fingerprint)
        .returning(_KEY)
    )
    try:
        async with session.begin_nested():
            (created,) = (await session.exec(statement)).one()
            return created
    except asyncpg.UniqueViolationError as error:
        if "fingerprint" in str(error):
            raise SshKeyTaken from error
        raise


async def lock_count(session: Session, user_id: UUID) -> int:
    """Count a person's keys; exact until the transaction ends.

    Locks the person's row, until the transaction ends or the process dies: two requests at once would both count
    without the other.
    """
    await session.exec(select(col(User.id)).where(col(User.id) == user_id).with_for_update())
    return (await session.exec(select(func.count()).where(col(SshKey.user_id) == user_id))).one()


async def list_all(session: Session, user_id: UUID) -> Sequence[SshKeyRecord]:
    """List the keys of a person, newest first."""
    statement = select(_KEY).where(col(SshKey.user_id) == user_id).order_by(col(SshKey.id).desc())
    return list(await session.exec(statement))


async def find_valid(session: Session, fingerprint: str) -> tuple[SshKeyRecord, UserRecord] | None:
    """Find a key and its person; None if there is none, or the person is disabled."""
    statement = (
        select(_KEY, USER)
        .join_from(SshKey, User, col(SshKey.user_id) == col(User.id))
        .where(col(SshKey.fingerprint) == fingerprint, col(User.disabled_at).is_(None))
    )
    return (await session.exec(statement)).first()


async def find_valid_ids(session: Session, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these keys are still there. Whether their people are disabled is not checked."""
    return set(await session.exec(select(col(SshKey.id)).where(col(SshKey.id) == any_(uuid_array(ids)))))


async def touch(session: Session, key_id: UUID) -> None:
    """Record that a key was used."""
    await session.exec(update(k).where(col(SshKey.id) == key_id).values(last_used_at=clock()))


async def remove(session: Session, user_id: UUID, key_id: UUID) -> SshKeyRecord | None:
    """Remove a key of this person. None: there is none."""
    statement = delete(k).where(col(SshKey.id) == key_id, col(SshKey.user_id) == user_id).returning(_KEY)
    found = (await session.exec(statement)).first()
    return found[0] if found is not None else None
