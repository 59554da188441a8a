"""Sessions of signed-in browsers, found by the hash of their cookie.

A session ends by its idle or its absolute expiry, whichever is first, or by its row being deleted: there is
no row of a revoked session.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ARRAY, Text, any_, bindparam, delete, func, insert, select, update

from codehub.store.accounts.users import USER_COLUMNS, UserRecord, to_user
from codehub.store.db.session import Session
from codehub.store.db.statements import rows_written, uuid_array
from codehub.store.schema.tables import sessions as s
from codehub.store.schema.tables import users as u


@dataclass(frozen=True)
class SignedIn:
    """A valid session and its user."""

    session_id: UUID
    user: UserRecord
    created_at: datetime
    last_seen_at: datetime
    expires_at: datetime


_VALID = (
    select(
        *USER_COLUMNS,
        s.c.id.label("session_id"),
        s.c.created_at,
        s.c.last_seen_at,
        s.c.expires_at,
        s.c.secret_hash,
    )
    .join_from(s, u, s.c.user_id == u.c.id)
    .where(
        s.c.secret_hash == any_(bindparam("hashes", type_=ARRAY(Text()))),
        s.c.idle_expires_at > func.statement_timestamp(),
        s.c.expires_at > func.statement_timestamp(),
        u.c.disabled_at.is_(None),
    )
)


async def create(
    session: Session,
    *,
    session_id: UUID,
    user_id: UUID,
    secret_hash: str,
    idle: timedelta,
    absolute: timedelta,
) -> datetime:
    """Create a session and return its absolute expiry."""
    now = func.clock_timestamp()
    statement = (
        insert(s)
        .values(
            id=session_id,
            user_id=user_id,
            secret_hash=secret_hash,
            idle_expires_at=now + idle,
            expires_at=now + absolute,
        )
        .returning(s.c.expires_at)
    )
    expires_at: datetime = (await session.execute(statement)).scalar_one()
    return expires_at


async def find_valid(session: Session, secret_hash: str) -> SignedIn | None:
    """Find the valid session of a cookie; None if expired, ended or its user disabled."""
    return (await find_all_valid(session, [secret_hash])).get(secret_hash)


async def find_all_valid(session: Session, hashes: Collection[str]) -> dict[str, SignedIn]:
    """Find the valid sessions of many cookies, by hash; invalid ones are left out."""
    rows = (await session.execute(_VALID, {"hashes": list(hashes)})).all()
    return {row[9]: SignedIn(row[5], to_user(row), row[6], row[7], row[8]) for row in rows}


async def find_valid_ids(session: Session, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these sessions are still valid.

    For event streams that outlive their first request.
    """
    statement = (
        select(s.c.id)
        .join_from(s, u, s.c.user_id == u.c.id)
        .where(
            s.c.id == any_(uuid_array(ids)),
            s.c.idle_expires_at > func.statement_timestamp(),
            s.c.expires_at > func.statement_timestamp(),
            u.c.disabled_at.is_(None),
        )
    )
    return set((await session.execute(statement)).scalars())


async def touch(session: Session, session_id: UUID, *, idle: timedelta) -> None:
    """Renew the idle expiry, within the absolute one.

    Call it coarsely, not per request.
    """
    now = func.clock_timestamp()
    statement = update(s).where(s.c.id == session_id).values(last_seen_at=now, idle_expires_at=now + idle)
    await session.execute(statement)


async def end(session: Session, session_id: UUID) -> bool:
    """Delete a session. False: there is none."""
    return await rows_written(session, delete(s).where(s.c.id == session_id)) == 1


async def end_all(session: Session, user_id: UUID, *, except_id: UUID | None = None) -> int:
    """End all sessions of a user, or all but ``except_id``."""
    statement = delete(s).where(s.c.user_id == user_id)
    if except_id is not None:
        statement = statement.where(s.c.id != except_id)
    return await rows_written(session, statement)


async def purge_expired(session: Session) -> int:
    """Delete expired sessions.

    Housekeeping only: ``find_valid`` does not depend on it.
    """
    now = func.statement_timestamp()
    return await rows_written(session, delete(s).where((s.c.idle_expires_at < now) | (s.c.expires_at < now)))
