"""Users: create, find, list, change role, password and disabled state."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import asyncpg
from sqlalchemy import ARRAY, Uuid, any_, bindparam, func, insert, text, update
from sqlalchemy.sql.dml import ReturningInsert
from sqlmodel import col, select

from codehub.domain.states import Role
from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import Page, clock, rows_written, uuid_array
from codehub.store.errors import UsernameTaken
from codehub.store.schema.tables import User
from codehub.store.schema.tables import users as u

# Any constant that no other lock of CodeHub uses: "users" in ASCII.
USERS_LOCK_KEY = int.from_bytes(b"users", "big")


@dataclass(frozen=True)
class UserRecord:
    """A user without the password hash, which has queries of its own."""

    id: UUID
    username: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None

    @property
    def is_admin(self) -> bool:
        return self.role is Role.ADMIN


USER = record(UserRecord, User)
_USER = select(USER)
_BY_IDS = _USER.where(col(User.id) == any_(bindparam("ids", type_=ARRAY(Uuid()))))


async def create(
    session: Session, *, user_id: UUID, username: str, password_hash: str, role: Role = Role.USER
) -> UserRecord:
    """Create a user. Raises ``UsernameTaken``; the transaction stays usable."""
    statement = (
        insert(u)
        .values(id=user_id, username=username, password_hash=password_hash, role=role)
        .returning(USER)
    )
    return await _unless_taken(session, statement, username)


async def find(session: Session, user_id: UUID) -> UserRecord | None:
    return (await find_many(session, [user_id])).get(user_id)


async def find_many(session: Session, ids: Collection[UUID]) -> dict[UUID, UserRecord]:
    return {user.id: user for user in await session.exec(_BY_IDS, {"ids": list(ids)})}


async def find_by_username(session: Session, username: str) -> UserRecord | None:
    statement = _USER.where(func.lower(col(User.username)) == username.lower())
    return (await session.exec(statement)).first()


async def find_credentials(session: Session, username: str) -> tuple[UserRecord, str] | None:
    """Find a user, disabled ones included, and the hash to verify a password against."""
    statement = select(USER, col(User.password_hash)).where(
        func.lower(col(User.username)) == username.lower()
    )
    return (await session.exec(statement)).first()


async def find_password_hash(session: Session, user_id: UUID) -> str | None:
    statement = select(col(User.password_hash)).where(col(User.id) == user_id)
    return (await session.exec(statement)).one_or_none()


async def find_enabled_ids(session: Session, ids: Collection[UUID]) -> set[UUID]:
    statement = select(col(User.id)).where(
        col(User.id) == any_(uuid_array(ids)), col(User.disabled_at).is_(None)
    )
    return set(await session.exec(statement))


async def names_of(session: Session, ids: Collection[UUID]) -> dict[UUID, str]:
    statement = select(col(User.id), col(User.username)).where(col(User.id) == any_(uuid_array(ids)))
    return dict(await session.exec(statement))


async def list_page(session: Session, *, cursor: UUID | None = None, limit: int = 50) -> Page[UserRecord]:
    """List users, newest first."""
    statement = _USER.order_by(col(User.id).desc()).limit(limit + 1)
    if cursor is not None:
        statement = statement.where(col(User.id) < cursor)
    items = await session.exec(statement)
    return Page(items[:limit], str(items[limit - 1].id) if len(items) > limit else None)


async def set_password_hash(session: Session, user_id: UUID, password_hash: str) -> bool:
    statement = update(u).where(col(User.id) == user_id).values(password_hash=password_hash)
    return await rows_written(session, statement) == 1


async def set_role(session: Session, user_id: UUID, role: Role) -> bool:
    return await rows_written(session, update(u).where(col(User.id) == user_id).values(role=role)) == 1


async def set_disabled(session: Session, user_id: UUID, *, disabled: bool) -> bool:
    """Disable (keeping the first time) or enable a user. The caller ends the sessions."""
    at = func.coalesce(col(User.disabled_at), clock()) if disabled else None
    return await rows_written(session, update(u).where(col(User.id) == user_id).values(disabled_at=at)) == 1


async def lock_admins(session: Session) -> int:
    """Count the admins that can sign in; exact until the transaction ends.

    Takes an advisory lock, which ends with the transaction, also when the process dies. Without it, two
    admins who demote each other at once would both count the other one.
    """
    await session.exec(text("SELECT pg_advisory_xact_lock(:key)"), {"key": USERS_LOCK_KEY})
    statement = select(func.count()).where(col(User.role) == Role.ADMIN, col(User.disabled_at).is_(None))
    return (await session.exec(statement)).one()


async def _unless_taken(
    session: Session, statement: ReturningInsert[UserRecord], username: str
) -> UserRecord:
    try:
        async with session.begin_nested():
            (created,) = (await session.exec(statement)).one()
            return created
    except asyncpg.UniqueViolationError as error:
        if "users_username" in str(error):
            raise UsernameTaken(f"there is a user {username!r} already") from error
        raise
