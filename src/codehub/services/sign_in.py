"""Sign in and out with a password, and change it.

A wrong name and a wrong password take the same time and get the same answer: the hash is checked against a
dummy, and both append one audit entry. Attempts are counted *before* the password is checked, for the account
and for the address, so that a hundred concurrent ones cannot all pass before the first one failed.

A sign-in always creates a new session and ends the one the browser sent: a cookie planted by an attacker
beforehand is worthless afterwards (session fixation).
"""

import math
import secrets
from dataclasses import dataclass, field
from uuid import UUID

from codehub.domain.errors import CodeHubError
from codehub.kit.clock import monotonic
from codehub.kit.ids import uuid7
from codehub.services.accounts import UnfitPasswordError
from codehub.services.identity import ABSOLUTE, IDLE, Identities, Principal, label_of
from codehub.services.passwords import Passwords, why_unfit
from codehub.signals.rate_limit import RateLimit
from codehub.store.accounts import audit, sessions, users
from codehub.store.accounts.secrets import hash_secret
from codehub.store.accounts.users import UserRecord
from codehub.store.db.session import Sessions

FAILURES_PER_ACCOUNT = 5
FAILURES_PER_ADDRESS = 20
WINDOW_SECONDS = 60.0
SECRET_BYTES = 32
PURGE_SECONDS = 3600.0


class InvalidCredentials(CodeHubError):
    """That name and password do not belong together."""

    code = "invalid_credentials"

    def __init__(self) -> None:
        super().__init__("That name and password do not belong together.")


class WrongPassword(CodeHubError):
    """The current password is not right."""

    code = "wrong_password"

    def __init__(self) -> None:
        super().__init__("The current password is not right.")


class TooManyAttempts(CodeHubError):
    """Too many wrong passwords in a minute."""

    code = "rate_limited"

    def __init__(self, wait_seconds: float) -> None:
        self.retry_after_seconds = max(1, math.ceil(wait_seconds))
        super().__init__(f"Too many failed attempts. Try again in {self.retry_after_seconds} s.")


@dataclass(frozen=True)
class NewSession:
    """A new session's user and secret."""

    user: UserRecord
    secret: str = field(repr=False)


class SignIn:
    """Signs in and out, with rate limits."""

    def __init__(
        self,
        sessions_: Sessions,
        *,
        passwords: Passwords,
        rate_limit: RateLimit,
        identities: Identities,
    ) -> None:
        self._sessions = sessions_
        self._passwords = passwords
        self._rate_limit = rate_limit
        self._identities = identities
        self._purged_at = -PURGE_SECONDS

    async def sign_in(
        self, username: str, password: str, *, address: str, previous: str | None = None
    ) -> NewSession:
        """Verify name and password and create a session.

        Raises ``TooManyAttempts``, ``InvalidCredentials``. ``previous``: the secret of the session the
        browser sent.
        """
        account_key = f"sign-in:account:{username.lower()}"
        address_key = f"sign-in:address:{address}"
        await self._count(address_key, FAILURES_PER_ADDRESS)
        await self._count(account_key, FAILURES_PER_ACCOUNT)
        async with self._sessions() as session:
            found = await users.find_credentials(session, username)
        user, password_hash = found if found is not None else (None, None)
        right = await self._passwords.verify(password_hash, password)
        if not right or user is None or password_hash is None or user.disabled_at is not None:
            await self._write_failure(user, address)
            raise InvalidCredentials
        secret = await self._begin(user, address=address, previous=previous)
        await self._rate_limit.reset(account_key)
        await self._rate_limit.forgive(address_key)
        if self._passwords.needs_rehash(password_hash):
            await self._rehash(user.id, password)
        return NewSession(user, secret)

    async def sign_out(self, principal: Principal) -> None:
        """End this session. Does nothing for a token, which has no session."""
        if principal.session_id is None:
            return
        async with self._sessions.begin() as session:
            if await sessions.end(session, principal.session_id):
                await audit.append(
                    session,
                    actor=principal.actor.label,
                    action="session.end",
                    subject=principal.user.username,
                )
        await self._identities.changed(principal.user.id)

    async def change_password(self, principal: Principal, *, current: str, new: str) -> None:
        """Change the password and end every other session of this person.

        Raises ``WrongPassword``, ``UnfitPasswordError``. Counted like a sign-in: a stolen session must not
        allow guessing the password.
        """
        if (reason := why_unfit(new)) is not None:
            raise UnfitPasswordError(reason)
        user, account_key = principal.user, f"sign-in:account:{principal.user.username.lower()}"
        await self._count(account_key, FAILURES_PER_ACCOUNT)
        async with self._sessions() as session:
            known = await users.find_password_hash(session, user.id)
        if not await self._passwords.verify(known, current):
            raise WrongPassword
        await self._rate_limit.reset(account_key)
        password_hash = await self._passwords.hash(new)
        async with self._sessions.begin() as session:
            await users.set_password_hash(session, user.id, password_hash)
            await sessions.end_all(session, user.id, except_id=principal.session_id)
            await audit.append(
                session, actor=principal.actor.label, action="user.password", subject=user.username
            )
        await self._identities.changed(user.id)

    async def _count(self, key: str, limit: int) -> None:
        wait = await self._rate_limit.hit(key, limit=limit, window_seconds=WINDOW_SECONDS)
        if wait is not None:
            raise TooManyAttempts(wait)

    async def _begin(self, user: UserRecord, *, address: str, previous: str | None) -> str:
        secret = secrets.token_urlsafe(SECRET_BYTES)
        async with self._sessions.begin() as session:
            if previous is not None and (old := await sessions.find_valid(session, hash_secret(previous))):
                await sessions.end(session, old.session_id)
            await sessions.create(
                session,
                session_id=uuid7(),
                user_id=user.id,
                secret_hash=hash_secret(secret),
                idle=IDLE,
                absolute=ABSOLUTE,
            )
            await audit.append(
                session,
                actor=label_of(user),
                action="session.begin",
                subject=user.username,
                detail={"address": address},
            )
            if monotonic() - self._purged_at > PURGE_SECONDS:
                self._purged_at = monotonic()
                await sessions.purge_expired(session)
        if previous is None:
            self._identities.forget(user.id)
        else:
            await self._identities.changed(user.id)
        return secret

    async def _write_failure(self, user: UserRecord | None, address: str) -> None:
        # An unknown name is not recorded: people type passwords into the wrong field.
        async with self._sessions.begin() as session:
            await audit.append(
                session,
                actor="anonymous",
                action="session.refuse",
                subject=user.username if user is not None else None,
                detail={"address": address},
            )

    async def _rehash(self, user_id: UUID, password: str) -> None:
        password_hash = await self._passwords.hash(password)
        async with self._sessions.begin() as session:
            await users.set_password_hash(session, user_id, password_hash)
