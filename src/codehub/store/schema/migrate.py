"""Migrate a database to this program's schema, or raise why that is impossible.

Called by ``codehub migrate``, by the embedded server at start and by tests. Any number of replicas may call
``upgrade`` at once: all but one wait at an advisory lock and then find nothing left to do.

Everything happens in one transaction. A process that dies half-way leaves the old schema, whole, and its lock
ends with its connection.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from codehub.store.db.connections import one_connection_engine
from codehub.store.errors import DatabaseNewer

T = TypeVar("T")

# Any constant will do as long as every replica uses the same one: "codehub" in ASCII.
MIGRATION_LOCK_KEY = int.from_bytes(b"codehub", "big")


def head() -> str:
    """Return the newest revision this program knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


async def current(url: str) -> str | None:
    """Return the database's revision; None: never migrated. Raises ``DatabaseNewer``."""
    return await _on_connection(url, _known_revision)


async def is_current(url: str) -> bool:
    """Return whether the database has this program's schema. Raises ``DatabaseNewer``."""
    return await current(url) == head()


async def upgrade(url: str, revision: str = "head") -> None:
    """Migrate up to ``revision``. Idempotent."""
    await _migrate(url, lambda config: command.upgrade(config, revision))


async def downgrade(url: str, revision: str) -> None:
    """Migrate down to ``revision`` (``base``: drop everything).

    Loses what the older schema cannot hold.
    """
    await _migrate(url, lambda config: command.downgrade(config, revision))


async def _migrate(url: str, run: Callable[[Config], None]) -> None:
    def locked(connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK_KEY})
        # Read after the lock is taken: the process that held it before may have been a newer program.
        _known_revision(connection)
        config = _config()
        config.attributes["connection"] = connection
        run(config)

    await _on_connection(url, locked)


async def _on_connection(url: str, work: Callable[[Connection], T]) -> T:
    engine = one_connection_engine(url, application_name="codehub-migrate")
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        # Shielded: a cancelled migration still has to close its connection, which ends its lock.
        await asyncio.shield(engine.dispose())


def _known_revision(connection: Connection) -> str | None:
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None:
        return None
    scripts = ScriptDirectory.from_config(_config())
    if revision not in {script.revision for script in scripts.walk_revisions()}:
        raise DatabaseNewer(revision, head())
    return revision


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
