"""Create and revoke API tokens. A token is shown once; only its SHA-256 is stored."""

import secrets
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from codehub.kit.ids import uuid7
from codehub.services.errors import NotFound
from codehub.services.identity import TOKEN_PREFIX, Principal
from codehub.store.accounts import audit, tokens
from codehub.store.accounts.secrets import hash_secret
from codehub.store.accounts.tokens import TokenRecord
from codehub.store.db import statements
from codehub.store.db.session import Session

SECRET_BYTES = 32


@dataclass(frozen=True)
class IssuedToken:
    """A new token with its secret."""

    record: TokenRecord
    token: str = field(repr=False)


async def create(
    session: Session, principal: Principal, *, name: str, lifetime: timedelta | None
) -> IssuedToken:
    """Create a token that acts as this person. ``lifetime`` None: until revoked."""
    token = TOKEN_PREFIX + secrets.token_urlsafe(SECRET_BYTES)
    expires_at = await statements.now(session) + lifetime if lifetime is not None else None
    record = await tokens.create(
        session,
        token_id=uuid7(),
        user_id=principal.user.id,
        name=name,
        secret_hash=hash_secret(token),
        expires_at=expires_at,
    )
    await _audit(session, principal, "token.create", record.id, name=name)
    return IssuedToken(record, token)


async def revoke(session: Session, principal: Principal, token_id: UUID) -> None:
    """Revoke a token. Raises ``NotFound``.

    Also for a token of another user, and for one that was revoked before.
    """
    if not await tokens.revoke(session, principal.user.id, token_id):
        raise NotFound("token")
    await _audit(session, principal, "token.revoke", token_id)


async def _audit(
    session: Session, principal: Principal, action: str, token_id: UUID, **detail: object
) -> None:
    await audit.append(
        session, actor=principal.actor.label, action=action, subject=str(token_id), detail=detail
    )
