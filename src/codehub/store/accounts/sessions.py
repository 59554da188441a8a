"""Sessions of signed-in browsers, found by the hash of their cookie.

A session ends by its idle or its absolute expiry, whichever is first, or by its row being deleted: there is
no row of a revoked session.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import ARRAY, Text, any_, bindparam, delete, insert, update
from sqlmodel import col, select

from codehub.store.accounts.users import USER, UserRecord
from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import clock, rows_written, statement_time, uuid_array
from codehub.store.schema.tables import SignInSession, User
from codehub.store.schema.tables import sessions as s


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
        col(SignInSession.secret_hash),
        record(SignedIn, SignInSession, session_id=col(SignInSession.id), user=USER),
    )
    .join_from(SignInSession, User, col(SignInSession.user_id) == col(User.id))
    .where(
        col(SignInSession.secret_hash) == any_(bindparam("hashes", type_=ARRAY(Text()))),
        col(SignInSession.idle_expires_at) > statement_time(),
        col(SignInSession.expires_at) > statement_time(),
        col(User.disabled_at).is_(None),
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
    now = clock()
    statement = (
        insert(s)
        .values(
            id=session_id,
            user_id=user_id,
            secret_hash=secret_hash,
            idle_expires_at=now + idle,
            expires_at=now + absolute,
        )
        .returning(col(SignInSession.expires_at))
    )
    (expires_at,) = (await session.exec(statement)).one()
    return expires_at


async def find_valid(session: Session, secret_hash: str) -> SignedIn | None:
    """Find the valid session of a cookie; None if expired, ended or its user disabled."""
    return (await find_all_valid(session, [secret_hash])).get(secret_hash)


async def find_all_valid(session: Session, hashes: Collection[str]) -> dict[str, SignedIn]:
    """Find the valid sessions of many cookies, by hash; invalid ones are left out."""
    return dict(await session.exec(_VALID, {"hashes": list(hashes)}))


async def find_valid_ids(session: Session, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these sessions are still valid.

    For event streams that outlive their first request.
    """
    statement = (
        select(col(SignInSession.id))
        .join_from(SignInSession, User, col(SignInSession.user_id) == col(User.id))
        .where(
            col(SignInSession.id) == any_(uuid_array(ids)),
            col(SignInSession.idle_expires_at) > statement_time(),
            col(SignInSession.expires_at) > statement_time(),
            col(User.disabled_at).is_(None),
        )
    )
    return set(await session.exec(statement))


async def touch(session: Session, session_id: UUID, *, idle: timedelta) -> None:
    """Renew the idle expiry, within the absolute one.

    Call it coarsely, not per request.
    """
    now = clock()
    statement = (
        update(s)
        .where(col(SignInSession.id) == session_id)
        .values(last_seen_at=now, idle_expires_at=now + idle)
    )
    await session.exec(statement)


async def end(session: Session, session_id: UUID) -> bool:
    """Delete a session. False: there is none."""
    return await rows_written(session, delete(s).where(col(SignInSession.id) == session_id)) == 1


async def end_all(session: Session, user_id: UUID, *, except_id: UUID | None = None) -> int:
    """End all sessions of a user, or all but ``except_id``."""
    statement = delete(s).where(col(SignInSession.user_id) == user_id)
    if except_id is not None:
        statement = statement.where(col(SignInSession.id) != except_id)
    return await rows_written(session, statement)


async def purge_expired(session: Session) -> int:
    """Delete expired sessions.

    Housekeeping only: ``find_valid`` does not depend on it.
    """
    now = statement_time()
    return await rows_written(
        session,
        delete(s).where((col(SignInSession.idle_expires_at) < now) | (col(SignInSession.expires_at) < now)),
    )
