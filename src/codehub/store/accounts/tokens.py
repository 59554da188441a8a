"""API tokens (``Authorization: Bearer``), found by the hash of their secret.

A revoked token keeps its row, for the record.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, Text, any_, bindparam, func, insert, or_, select, update

from codehub.store.accounts.users import USER_COLUMNS, UserRecord, to_user
from codehub.store.db.session import Session
from codehub.store.db.statements import Page, rows_written, uuid_array
from codehub.store.schema.tables import api_tokens as t
from codehub.store.schema.tables import users as u


@dataclass(frozen=True)
class TokenRecord:
    """An API token without its secret."""

    id: UUID
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


_COLUMNS = (t.c.id, t.c.name, t.c.created_at, t.c.expires_at, t.c.last_used_at)
_VALID = (
    select(*USER_COLUMNS, *_COLUMNS, t.c.secret_hash)
    .join_from(t, u, t.c.user_id == u.c.id)
    .where(
        t.c.secret_hash == any_(bindparam("hashes", type_=ARRAY(Text()))),
        t.c.revoked_at.is_(None),
        or_(t.c.expires_at.is_(None), t.c.expires_at > func.statement_timestamp()),
        u.c.disabled_at.is_(None),
    )
)


async def create(
    session: Session,
    *,
    token_id: UUID,
    user_id: UUID,
    name: str,
    secret_hash: str,
    expires_at: datetime | None,
) -> TokenRecord:
    """Insert a token; only the hash of its secret is stored."""
    statement = (
        insert(t)
        .values(id=token_id, user_id=user_id, name=name, secret_hash=secret_hash, expires_at=expires_at)
        .returning(*_COLUMNS)
    )
    return TokenRecord(*(await session.execute(statement)).one())


async def find_valid(session: Session, secret_hash: str) -> tuple[TokenRecord, UserRecord] | None:
    """Find a valid token and its user; None if expired, revoked or the user disabled."""
    return (await find_all_valid(session, [secret_hash])).get(secret_hash)


async def find_all_valid(
    session: Session, hashes: Collection[str]
) -> dict[str, tuple[TokenRecord, UserRecord]]:
    """Find valid tokens and their users, by hash; invalid ones are left out."""
    rows = (await session.execute(_VALID, {"hashes": list(hashes)})).all()
    return {row[-1]: (TokenRecord(*row[len(USER_COLUMNS) : -1]), to_user(row)) for row in rows}


async def find_valid_ids(session: Session, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these tokens are neither revoked nor expired.

    Whether their users are disabled is not checked.
    """
    statement = select(t.c.id).where(
        t.c.id == any_(uuid_array(ids)),
        t.c.revoked_at.is_(None),
        or_(t.c.expires_at.is_(None), t.c.expires_at > func.statement_timestamp()),
    )
    return set((await session.execute(statement)).scalars())


async def list_page(
    session: Session, user_id: UUID, *, cursor: UUID | None = None, limit: int = 50
) -> Page[TokenRecord]:
    """List the tokens of a user that are not revoked, newest first.

    Expired ones are included: they explain a 401.
    """
    statement = (
        select(*_COLUMNS)
        .where(t.c.user_id == user_id, t.c.revoked_at.is_(None))
        .order_by(t.c.id.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        statement = statement.where(t.c.id < cursor)
    items = [TokenRecord(*row) for row in await session.execute(statement)]
    return Page(items[:limit], str(items[limit - 1].id) if len(items) > limit else None)


async def touch(session: Session, token_id: UUID) -> None:
    """Record that a token was used. Call it coarsely, not per request."""
    await session.execute(update(t).where(t.c.id == token_id).values(last_used_at=func.clock_timestamp()))


async def revoke(session: Session, user_id: UUID, token_id: UUID) -> bool:
    """Revoke a token of this user. False: there is none, or it was revoked before."""
    statement = (
        update(t)
        .where(t.c.id == token_id, t.c.user_id == user_id, t.c.revoked_at.is_(None))
        .values(revoked_at=func.clock_timestamp())
    )
    return await rows_written(session, statement) == 1


async def revoke_all(session: Session, user_id: UUID) -> int:
    """Revoke all tokens of a user; returns how many."""
    statement = (
        update(t)
        .where(t.c.user_id == user_id, t.c.revoked_at.is_(None))
        .values(revoked_at=func.clock_timestamp())
    )
    return await rows_written(session, statement)
