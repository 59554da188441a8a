"""Manage accounts for ``codehub user …``, one transaction each.

On the configured database, or on the embedded one.
"""

import contextlib
import getpass
from collections.abc import AsyncIterator
from uuid import UUID

from codehub.cli.log_setup import configure_logs
from codehub.domain.errors import CodeHubError
from codehub.domain.states import Role
from codehub.server.data_dir import DataDir
from codehub.server.database import DatabaseNotMigratedError, explained
from codehub.server.processes import embedded
from codehub.server.processes.embedded import redis
from codehub.server.settings.tree import load_settings
from codehub.services import accounts
from codehub.services.accounts import LastAdminError, NoSuchUserError
from codehub.services.passwords import Passwords
from codehub.signals.connection import RedisLink
from codehub.signals.live import LivePublisher
from codehub.store import migrate
from codehub.store.accounts import users
from codehub.store.accounts.users import UserRecord
from codehub.store.db import connections
from codehub.store.db.session import Session
from codehub.store.errors import UsernameTaken

EXIT_CODES: dict[type[CodeHubError], int] = {NoSuchUserError: 4, UsernameTaken: 5, LastAdminError: 5}
PAGE = 200


async def add(username: str, *, password: str, role: Role) -> UserRecord:
    """Create an account."""
    async with _session() as session, _hashing() as passwords:
        return await accounts.create_user(
            session, passwords, username=username, password=password, role=role, actor=_actor()
        )


async def list_all() -> list[UserRecord]:
    """Return all accounts, by username."""
    found: list[UserRecord] = []
    cursor: UUID | None = None
    async with _session() as session:
        while True:
            page = await users.list_page(session, cursor=cursor, limit=PAGE)
            found += page.items
            if page.next_cursor is None:
                return sorted(found, key=lambda user: user.username.lower())
            cursor = UUID(page.next_cursor)


async def set_password(username: str, *, password: str) -> None:
    """Set a password. Ends all sessions of that person."""
    async with _session() as session, _hashing() as passwords:
        user = await accounts.set_password(
            session, passwords, username=username, password=password, actor=_actor()
        )
    await _announce(user)


async def set_disabled(username: str, *, disabled: bool) -> UserRecord:
    """Disable or enable an account. Disabling ends all its sessions."""
    async with _session() as session:
        user = await accounts.set_disabled(session, username=username, disabled=disabled, actor=_actor())
    await _announce(user)
    return user


@contextlib.asynccontextmanager
async def _session() -> AsyncIterator[Session]:
    """Open one transaction on the configured database, or on the embedded one, running or not."""
    settings = load_settings()
    configure_logs(settings, level="warning")
    async with embedded.database(settings) as url:
        async with explained(url):
            if not await migrate.is_usable(url):
                raise DatabaseNotMigratedError(
                    "The database is not migrated yet. Run `codehub migrate` first."
                )
        pool = connections.create_pool(url, pool_size=1, application_name="codehub-cli")
        try:
            async with connections.session_factory(pool)() as session, session.begin():
                yield session
        except CodeHubError as error:
            error.exit_code = EXIT_CODES.get(type(error), 1)  # type: ignore[attr-defined]
            raise
        finally:
            await pool.dispose()


async def _announce(user: UserRecord) -> None:
    """Announce changed rights: sessions and streams are checked at once; without Redis, within seconds."""
    settings = load_settings()
    data_dir = DataDir(settings.data_dir)
    if settings.redis.url is not None:
        url = settings.redis.url.get_secret_value()
    elif redis.is_running(data_dir):
        url = redis.url(data_dir)
    else:
        return
    link = RedisLink(url, client_name="codehub-cli", channel_prefix=settings.redis.channel_prefix)
    try:
        await LivePublisher(link).publish_person(user.id)
    finally:
        await link.close()


@contextlib.asynccontextmanager
async def _hashing() -> AsyncIterator[Passwords]:
    passwords = Passwords(threads=1)
    try:
        yield passwords
    finally:
        passwords.close()


def _actor() -> str:
    """Return the actor for the audit log: the account on this machine, since there is no sign-in."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return "cli"
