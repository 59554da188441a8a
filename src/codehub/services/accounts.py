"""Manage accounts: create users, change passwords and roles, disable.

Each function takes the session it works in. Disabling a user or changing a password ends all sessions of that
user in the same transaction: there is no moment in which a disabled user still has access.
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
    """The username is not allowed.

    1 to 64 letters, digits, dots, dashes, underscores or @, beginning with a letter or digit.
    """

    code = "unfit_username"


class UnfitPasswordError(CodeHubError):
    """The password does not meet the rules."""

    code = "unfit_password"


class NoSuchUserError(CodeHubError):
    """There is no user of that name."""

    code = "no_such_user"


class LastAdminError(CodeHubError):
    """The change would leave CodeHub without an administrator."""

    code = "last_admin"


@dataclass(frozen=True)
class FirstAdmin:
    """The account just created. The password is set only if it was generated."""

    username: str
    generated_password: str | None = field(repr=False)


async def ensure_first_admin(
    session_factory: Sessions, passwords: Passwords, *, password: str | None
) -> FirstAdmin | None:
    """Create ``admin`` if there is no user; None if there is one.

    Any number of replicas may call it at once: the lock lets one of them through and the others then find a
    user. A process that dies before the commit leaves no user, and the next start creates the account.
    """
    async with session_factory() as session:
        if await _has_users(session):
            return None
    chosen = password or generate()
    password_hash = await passwords.hash(chosen)  # slow, so before the lock
    async with session_factory() as session, session.begin():
        await users.lock_admins(session)
        if await _has_users(session):
            return None
        await users.create(
            session, user_id=uuid7(), username=FIRST_ADMIN, password_hash=password_hash, role=Role.ADMIN
        )
        await audit.append(session, actor="codehub", action="user.create", subject=FIRST_ADMIN)
    return FirstAdmin(username=FIRST_ADMIN, generated_password=None if password else chosen)


async def create_user(
    session: Session, passwords: Passwords, *, username: str, password: str, role: Role, actor: str
) -> UserRecord:
    """Create a user.

    Raises ``UnfitUsernameError``, ``UnfitPasswordError``, ``UsernameTaken``.
    """
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
    """Set a password and end every session of the user.

    Tokens stay: they have their own secrets.
    """
    password_hash = await passwords.hash(_fit(password))
    user = await get_user(session, username)
    await users.set_password_hash(session, user.id, password_hash)
    await sessions.end_all(session, user.id)
    await audit.append(session, actor=actor, action="user.password", subject=user.username)
    return user


async def set_disabled(session: Session, *, username: str, disabled: bool, actor: str) -> UserRecord:
    """Disable or enable a user. Raises ``LastAdminError``.

    Disabling ends all sessions and revokes all tokens.
    """
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
    """Change role, disabled state and password of a user, or any of them.

    Raises ``NotFound``, ``LastAdminError``, ``UnfitPasswordError``. A value that is set already changes
    nothing and is not audited.
    """
    password_hash = await passwords.hash(_fit(password)) if password is not None else None
    admins = await users.lock_admins(session)  # before the read: no role changes in between
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


async def _has_users(session: Session) -> bool:
    return bool((await users.list_page(session, limit=1)).items)
