"""API tokens (``Authorization: Bearer``), found by the hash of their secret.

A revoked token keeps its row, for the record.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import ARRAY, Text, any_, bindparam, insert, or_, update
from sqlmodel import col, select

from codehub.store.accounts.users import USER, UserRecord
from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import Page, clock, rows_written, statement_time, uuid_array
from codehub.store.schema.tables import ApiToken, User
from codehub.store.schema.tables import api_tokens as t


@dataclass(frozen=True)
class TokenRecord:
    """An API token without its secret."""

    id: UUID
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


_TOKEN = record(TokenRecord, ApiToken)
_VALID = (
    select(col(ApiToken.secret_hash), _TOKEN, USER)
    .join_from(ApiToken, User, col(ApiToken.user_id) == col(User.id))
    .where(
        col(ApiToken.secret_hash) == any_(bindparam("hashes", type_=ARRAY(Text()))),
        col(ApiToken.revoked_at).is_(None),
        or_(col(ApiToken.expires_at).is_(None), col(ApiToken.expires_at) > statement_time()),
        col(User.disabled_at).is_(None),
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
        .returning(_TOKEN)
    )
    (created,) = (await session.exec(statement)).one()
    return created


async def find_valid(session: Session, secret_hash: str) -> tuple[TokenRecord, UserRecord] | None:
    """Find a valid token and its user; None if expired, revoked or the user disabled."""
    return (await find_all_valid(session, [secret_hash])).get(secret_hash)


async def find_all_valid(
    session: Session, hashes: Collection[str]
) -> dict[str, tuple[TokenRecord, UserRecord]]:
    """Find valid tokens and their users, by hash; invalid ones are left out."""
    rows = await session.exec(_VALID, {"hashes": list(hashes)})
    return {secret_hash: (token, user) for secret_hash, token, user in rows}


async def find_valid_ids(session: Session, ids: Collection[UUID]) -> set[UUID]:
    """Return which of these tokens are neither revoked nor expired.

    Whether their users are disabled is not checked.
    """
    statement = select(col(ApiToken.id)).where(
        col(ApiToken.id) == any_(uuid_array(ids)),
        col(ApiToken.revoked_at).is_(None),
        or_(col(ApiToken.expires_at).is_(None), col(ApiToken.expires_at) > statement_time()),
    )
    return set(await session.exec(statement))


async def list_page(
    session: Session, user_id: UUID, *, cursor: UUID | None = None, limit: int = 50
) -> Page[TokenRecord]:
    """List the tokens of a user that are not revoked, newest first.

    Expired ones are included: they explain a 401.
    """
    statement = (
        select(_TOKEN)
        .where(col(ApiToken.user_id) == user_id, col(ApiToken.revoked_at).is_(None))
        .order_by(col(ApiToken.id).desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        statement = statement.where(col(ApiToken.id) < cursor)
    items = await session.exec(statement)
    return Page(items[:limit], str(items[limit - 1].id) if len(items) > limit else None)


async def touch(session: Session, token_id: UUID) -> None:
    """Record that a token was used. Call it coarsely, not per request."""
    await session.exec(update(t).where(col(ApiToken.id) == token_id).values(last_used_at=clock()))


async def revoke(session: Session, user_id: UUID, token_id: UUID) -> bool:
    """Revoke a token of this user. False: there is none, or it was revoked before."""
    statement = (
        update(t)
        .where(
            col(ApiToken.id) == token_id, col(ApiToken.user_id) == user_id, col(ApiToken.revoked_at).is_(None)
        )
        .values(revoked_at=clock())
    )
    return await rows_written(session, statement) == 1


async def revoke_all(session: Session, user_id: UUID) -> int:
    """Revoke all tokens of a user; returns how many."""
    statement = (
        update(t)
        .where(col(ApiToken.user_id) == user_id, col(ApiToken.revoked_at).is_(None))
        .values(revoked_at=clock())
    )
    return await rows_written(session, statement)
