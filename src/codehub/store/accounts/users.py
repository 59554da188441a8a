"""Users: create, find, list, change role, password and disabled state."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
from sqlalchemy import ARRAY, Executable, Uuid, any_, bindparam, func, insert, select, text, update

from codehub.domain.states import Role
from codehub.store.db.session import Session
from codehub.store.db.statements import Page, rows_written, uuid_array
from codehub.store.errors import UsernameTaken
from codehub.store.schema.tables import users as u
from codehub.store.workspaces.records import AnyRow

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


USER_COLUMNS = (u.c.id, u.c.username, u.c.role, u.c.created_at, u.c.disabled_at)
_USER = select(*USER_COLUMNS)
_BY_IDS = _USER.where(u.c.id == any_(bindparam("ids", type_=ARRAY(Uuid()))))


def to_user(row: AnyRow | Sequence[Any]) -> UserRecord:
    """Read a user from a row that begins with ``USER_COLUMNS``."""
    return UserRecord(*row[: len(USER_COLUMNS)])


async def create(
    session: Session, *, user_id: UUID, username: str, password_hash: str, role: Role = Role.USER
) -> UserRecord:
    """Create a user. Raises ``UsernameTaken``; the transaction stays usable."""
    statement = (
        insert(u)
        .values(id=user_id, username=username, password_hash=password_hash, role=role)
        .returning(*USER_COLUMNS)
    )
    return await _unless_taken(session, statement, username)


async def find(session: Session, user_id: UUID) -> UserRecord | None:
    return (await find_many(session, [user_id])).get(user_id)


async def find_many(session: Session, ids: Collection[UUID]) -> dict[UUID, UserRecord]:
    rows = (await session.execute(_BY_IDS, {"ids": list(ids)})).all()
    return {row[0]: to_user(row) for row in rows}


async def find_by_username(session: Session, username: str) -> UserRecord | None:
    statement = _USER.where(func.lower(u.c.username) == username.lower())
    row = (await session.execute(statement)).first()
    return to_user(row) if row is not None else None


async def find_credentials(session: Session, username: str) -> tuple[UserRecord, str] | None:
    """Find a user, disabled ones included, and the hash to verify a password against."""
    statement = select(*USER_COLUMNS, u.c.password_hash).where(func.lower(u.c.username) == username.lower())
    row = (await session.execute(statement)).first()
    return (to_user(row), row.password_hash) if row is not None else None


async def find_password_hash(session: Session, user_id: UUID) -> str | None:
    statement = select(u.c.password_hash).where(u.c.id == user_id)
    found: str | None = (await session.execute(statement)).scalar_one_or_none()
    return found


async def find_enabled_ids(session: Session, ids: Collection[UUID]) -> set[UUID]:
    statement = select(u.c.id).where(u.c.id == any_(uuid_array(ids)), u.c.disabled_at.is_(None))
    return set((await session.execute(statement)).scalars())


async def list_page(session: Session, *, cursor: UUID | None = None, limit: int = 50) -> Page[UserRecord]:
    """List users, newest first."""
    statement = _USER.order_by(u.c.id.desc()).limit(limit + 1)
    if cursor is not None:
        statement = statement.where(u.c.id < cursor)
    items = [to_user(row) for row in await session.execute(statement)]
    return Page(items[:limit], str(items[limit - 1].id) if len(items) > limit else None)


async def set_password_hash(session: Session, user_id: UUID, password_hash: str) -> bool:
    statement = update(u).where(u.c.id == user_id).values(password_hash=password_hash)
    return await rows_written(session, statement) == 1


async def set_role(session: Session, user_id: UUID, role: Role) -> bool:
    return await rows_written(session, update(u).where(u.c.id == user_id).values(role=role)) == 1


async def set_disabled(session: Session, user_id: UUID, *, disabled: bool) -> bool:
    """Disable (keeping the first time) or enable a user. The caller ends the sessions."""
    at = func.coalesce(u.c.disabled_at, func.clock_timestamp()) if disabled else None
    return await rows_written(session, update(u).where(u.c.id == user_id).values(disabled_at=at)) == 1


async def lock_admins(session: Session) -> int:
    """Count the admins that can sign in; exact until the transaction ends.

    Takes an advisory lock, which ends with the transaction, also when the process dies. Without it, two
    admins who demote each other at once would both count the other one.
    """
    await session.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": USERS_LOCK_KEY})
    statement = select(func.count()).where(u.c.role == Role.ADMIN, u.c.disabled_at.is_(None))
    admins: int = (await session.execute(statement)).scalar_one()
    return admins


async def _unless_taken(session: Session, statement: Executable, username: str) -> UserRecord:
    try:
        async with session.begin_nested():
            return to_user((await session.execute(statement)).one())
    except asyncpg.UniqueViolationError as error:
        if "users_username" in str(error):
            raise UsernameTaken(f"there is a user {username!r} already") from error
        raise
