"""Accounts of people: made, given a new password, disabled. Each function takes the session it works in.

Whoever loses an account or its password is signed out everywhere in the same transaction: there is no moment
in which a disabled person still works.
"""

import re
from dataclasses import dataclass, field
from uuid import UUID

from codehub.domain.errors import CodeHubError
from codehub.domain.states import Role
from codehub.kit.ids import uuid7
from codehub.services.errors import NotFound
from codehub.services.passwords import Passwords, generate, why_unfit
from codehub.store.accounts import audit, sessions, tokens, users
from codehub.store.accounts.users import UserRecord
from codehub.store.db.session import Session, Sessions

FIRST_ADMIN = "admin"
USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


class UnfitUsernameError(CodeHubError):
    """A username has 1 to 64 letters, digits, dots, dashes, underscores or @, and begins with one of the
    first two."""

    code = "unfit_username"


class UnfitPasswordError(CodeHubError):
    """The password does not meet the rules."""

    code = "unfit_password"


class NoSuchUserError(CodeHubError):
    """There is no user of that name."""

    code = "no_such_user"


class LastAdminError(CodeHubError):
    """Nobody could administer CodeHub any more."""

    code = "last_admin"


@dataclass(frozen=True)
class FirstAdmin:
    """The account that was just made. The password is here only if nobody chose it."""

    username: str
    generated_password: str | None = field(repr=False)


async def ensure_first_admin(
    session_factory: Sessions, passwords: Passwords, *, password: str | None
) -> FirstAdmin | None:
    """Make ``admin`` if there is nobody at all; None if there was somebody.

    Any number of replicas may ask at once: the lock lets one of them through and the others then find a user.
    Dying before the commit leaves nobody, and the next start makes the account.
    """
    async with session_factory() as session:
        if await _somebody(session):
            return None
    chosen = password or generate()
    password_hash = await passwords.hash(chosen)  # slow, so before the lock
    async with session_factory() as session, session.begin():
        await users.lock_admins(session)
        if await _somebody(session):
            return None
        await users.create(
            session, user_id=uuid7(), username=FIRST_ADMIN, password_hash=password_hash, role=Role.ADMIN
        )
        await audit.append(session, actor="codehub", action="user.create", subject=FIRST_ADMIN)
    return FirstAdmin(username=FIRST_ADMIN, generated_password=None if password else chosen)


async def create_user(
    session: Session, passwords: Passwords, *, username: str, password: str, role: Role, actor: str
) -> UserRecord:
    """A new person. Raises ``UnfitUsernameError``, ``UnfitPasswordError``, ``UsernameTaken``."""
    if not USERNAME.fullmatch(username):
        raise UnfitUsernameError(
            f"{username!r} cannot be a username: 1 to 64 letters, digits and . _ @ -, "
            "beginning with a letter or digit."
        )
    password_hash = await passwords.hash(_fit(password))
    user = await users.create(
        session, user_id=uuid7(), username=username, password_hash=password_hash, role=role
    )
    await audit.append(
        session, actor=actor, action="user.create", subject=username, detail={"role": role.value}
    )
    return user


async def set_password(
    session: Session, passwords: Passwords, *, username: str, password: str, actor: str
) -> UserRecord:
    """A new password; every session of that person ends. Tokens stay: they have their own secrets."""
    password_hash = await passwords.hash(_fit(password))
    user = await get_user(session, username)
    await users.set_password_hash(session, user.id, password_hash)
    await sessions.end_all(session, user.id)
    await audit.append(session, actor=actor, action="user.password", subject=user.username)
    return user


async def set_disabled(session: Session, *, username: str, disabled: bool, actor: str) -> UserRecord:
    """Nobody signs in as this person any more, or again. Raises ``LastAdminError``."""
    admins = await users.lock_admins(session)
    user = await get_user(session, username)
    if disabled and user.is_admin and user.disabled_at is None and admins <= 1:
        raise LastAdminError(f"{user.username} is the last admin. Make another one first.")
    await users.set_disabled(session, user.id, disabled=disabled)
    if disabled:
        await sessions.end_all(session, user.id)
        await tokens.revoke_all(session, user.id)
    action = "user.disable" if disabled else "user.enable"
    await audit.append(session, actor=actor, action=action, subject=user.username)
    return await get_user(session, username)


async def change_user(
    session: Session,
    passwords: Passwords,
    user_id: UUID,
    *,
    role: Role | None = None,
    disabled: bool | None = None,
    password: str | None = None,
    actor: str,
) -> UserRecord:
    """Any of the three, or none. Raises ``NotFound``, ``LastAdminError``, ``UnfitPasswordError``.

    Asking for what is so already changes nothing and is not audited.
    """
    password_hash = await passwords.hash(_fit(password)) if password is not None else None
    admins = await users.lock_admins(session)  # before the read: nobody changes a role in between
    user = await users.find(session, user_id)
    if user is None:
        raise NotFound("user")
    loses_admin = role is Role.USER or bool(disabled)
    if loses_admin and user.is_admin and user.disabled_at is None and admins <= 1:
        raise LastAdminError(f"{user.username} is the last admin. Make another one first.")
    if role is not None and role is not user.role:
        await users.set_role(session, user_id, role)
        await audit.append(
            session, actor=actor, action="user.role", subject=user.username, detail={"role": role.value}
        )
    if disabled is not None and disabled is not (user.disabled_at is not None):
        await set_disabled(session, username=user.username, disabled=disabled, actor=actor)
    if password_hash is not None:
        await users.set_password_hash(session, user_id, password_hash)
        await sessions.end_all(session, user_id)
        await audit.append(session, actor=actor, action="user.password", subject=user.username)
    changed = await users.find(session, user_id)
    assert changed is not None, "people are never removed"
    return changed


async def get_user(session: Session, username: str) -> UserRecord:
    user = await users.find_by_username(session, username)
    if user is None:
        raise NoSuchUserError(f"There is no user {username!r}. `codehub user list` shows all.")
    return user


def _fit(password: str) -> str:
    if (reason := why_unfit(password)) is not None:
        raise UnfitPasswordError(reason)
    return password


async def _somebody(session: Session) -> bool:
    return bool((await users.list_page(session, limit=1)).items)
