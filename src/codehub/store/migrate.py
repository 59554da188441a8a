"""Migrate a database to this program's schema, or raise why that is impossible.

Called by ``codehub migrate``, by the embedded server at start and by tests. Any number of replicas may call
``upgrade`` at once: all but one wait at an advisory lock and then find nothing left to do.

Everything happens in one transaction. A process that dies half-way leaves the old schema, whole, and its lock
ends with its connection.

Older programs may go on, or start again, on a newer schema that only adds to theirs: a migration names the oldest
program (``oldest_program``, a revision) that its schema still serves, and the database keeps that name as the
comment of ``alembic_version``. A migration that names none serves no older program. So a change that takes
something away comes in two releases: the first stops using it, the second removes it.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import Connection, text

from codehub.store.db.connections import one_connection_engine
from codehub.store.errors import DatabaseNewer

T = TypeVar("T")

# Any constant will do as long as every replica uses the same one: "codehub" in ASCII.
MIGRATION_LOCK_KEY = int.from_bytes(b"codehub", "big")

OLDEST_PROGRAM = "obj_description('alembic_version'::regclass, 'pg_class')"
"""SQL for the oldest program, as a revision, that the schema serves; NULL in a database that never said."""


def head() -> str:
    """Return the newest revision this program knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


async def current(url: str) -> str | None:
    """Return the database's revision; None: never migrated. Raises ``DatabaseNewer``."""
    return await _on_connection(url, _usable_revision)


async def is_usable(url: str) -> bool:
    """Return whether this program can work on the database's schema. Raises ``DatabaseNewer``."""
    revision = await current(url)
    return revision is not None and (revision == head() or revision not in _known())


def serves(revision: str | None, oldest_program: str | None) -> bool:
    """Whether a schema at ``revision`` serves this program: its own, or a newer one that says so."""
    return revision == head() or (revision not in _known() and oldest_program in _known())


async def upgrade(url: str, revision: str = "head") -> None:
    """Migrate up to ``revision``. Idempotent. A newer schema that serves this program stays as it is."""
    if await current(url) in (*_known(), None):
        await _migrate(url, lambda config: command.upgrade(config, revision))


async def downgrade(url: str, revision: str) -> None:
    """Migrate down to ``revision`` (``base``: drop everything).

    Loses what the older schema cannot hold.
    """
    await _migrate(url, lambda config: command.downgrade(config, revision))


def is_known(revision: str) -> bool:
    """Whether this program has the migration that makes ``revision``."""
    return revision in _known()


def rebuild(connection: Connection, revision: str) -> None:
    """Drop everything and make the schema of ``revision``, empty, in the transaction of ``connection``."""
    config = _config()
    config.attributes["connection"] = connection
    if _usable_revision(connection) is not None:
        command.downgrade(config, "base")
    command.upgrade(config, revision)
    _write_oldest_program(connection)


async def _migrate(url: str, run: Callable[[Config], None]) -> None:
    def locked(connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": MIGRATION_LOCK_KEY})
        # Read after the lock is taken: the process that held it before may have been a newer program.
        revision = _usable_revision(connection)
        if revision is not None and revision not in _known():
            raise DatabaseNewer(revision, head())
        config = _config()
        config.attributes["connection"] = connection
        run(config)
        _write_oldest_program(connection)

    await _on_connection(url, locked)


async def _on_connection(url: str, work: Callable[[Connection], T]) -> T:
    engine = one_connection_engine(url, application_name="codehub-migrate")
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    finally:
        # Shielded: a cancelled migration still has to close its connection, which ends its lock.
        await asyncio.shield(engine.dispose())


def _usable_revision(connection: Connection) -> str | None:
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is None or revision in _known():
        return revision
    oldest = connection.execute(text(f"SELECT {OLDEST_PROGRAM}")).scalar_one()
    if not serves(revision, oldest):
        raise DatabaseNewer(revision, head())
    return revision


def _write_oldest_program(connection: Connection) -> None:
    revision = MigrationContext.configure(connection).get_current_revision()
    if revision is not None:
        oldest = getattr(_known()[revision].module, "oldest_program", revision)
        connection.execute(text(f"COMMENT ON TABLE alembic_version IS '{oldest}'"))


@cache
def _known() -> Mapping[str, Script]:
    """The migrations this program has, by revision."""
    return {script.revision: script for script in ScriptDirectory.from_config(_config()).walk_revisions()}


def _config() -> Config:
    config = Config()
    config.set_main_option(
        "script_location", str(Path(__file__).parent / "schema" / "migrations").replace("%", "%%")
    )
    return config
