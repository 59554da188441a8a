"""Prepare the database at start: reach it, migrate it, create the first admin."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
from sqlalchemy.exc import DBAPIError, InterfaceError

from codehub.domain.errors import CodeHubError
from codehub.kit.logs import redact_text
from codehub.server.settings.tree import ProcessRole, Settings
from codehub.services.accounts import FirstAdmin, ensure_first_admin
from codehub.services.passwords import Passwords
from codehub.store import migrate as migrations
from codehub.store.db import connections
from codehub.store.errors import DRIVER_ERRORS

TROUBLE = frozenset({"08", "28", "3D", "53", "57"})
"""Classes of SQLSTATE: connection, authorisation, no such database, out of resources, shutting down."""


class DatabaseUnreachableError(CodeHubError):
    """The database does not answer, or refuses this client."""

    code = "database_unreachable"


class DatabaseNotMigratedError(CodeHubError):
    """The database has an older schema than this program needs."""

    code = "database_not_migrated"


async def prepare_database(url: str, settings: Settings, *, migrate: bool) -> FirstAdmin | None:
    """Migrate the schema and create the first admin, if there is no user yet.

    Only a replica with the API creates the admin: a proxy by itself is not told the first password, and would make
    one up that nobody learns. Any number of replicas may do this at once. A crash is harmless: each step is one
    transaction.
    """
    async with explained(url):
        if migrate:
            await migrations.upgrade(url)
        elif not await migrations.is_usable(url):
            raise DatabaseNotMigratedError(
                "The database is not migrated to this program's schema. Run `codehub migrate` first."
            )
        if ProcessRole.API not in settings.http.roles:
            return None
        pool = connections.create_pool(url, pool_size=1)
        passwords = Passwords(threads=1)
        try:
            secret = settings.admin.password
            return await ensure_first_admin(
                connections.session_factory(pool),
                passwords,
                password=secret.get_secret_value() if secret else None,
            )
        finally:
            passwords.close()
            await pool.dispose()


@asynccontextmanager
async def explained(url: str) -> AsyncIterator[None]:
    """Translate connection failures into an error that says what to do."""
    try:
        yield
    except (OSError, *DRIVER_ERRORS, DBAPIError) as error:
        if isinstance(error, DBAPIError) and not _is_trouble(error):
            raise
        detail = redact_text(str(_root(error))).strip() or type(error).__name__
        raise DatabaseUnreachableError(
            f"The database at {redact_text(url)} cannot be used: {detail.rstrip('.')}. "
            "Check that it runs and that DATABASE_URL is right, or unset it to use the embedded one."
        ) from error


def _is_trouble(error: DBAPIError) -> bool:
    """Whether the database is failing or unreachable; any other error is a bug of CodeHub."""
    state = str(getattr(error.orig, "sqlstate", None) or "")
    return error.connection_invalidated or state[:2] in TROUBLE or isinstance(error, InterfaceError)


def _root(error: BaseException) -> BaseException:
    """The error of the database or the network, without the libraries' wrappers."""
    while isinstance(error, DBAPIError) and error.orig is not None:
        error = error.orig
    return error.__cause__ if isinstance(error.__cause__, asyncpg.PostgresError) else error
