"""Restore a backup file into a database: all of it, in one transaction, or nothing.

A process that dies half-way leaves what was there before. The schema is made as it was when the backup was made, the
rows are copied in without the triggers that would write history about them, and then the schema is migrated.
"""

import tempfile
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import asyncpg
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from codehub.domain.errors import CodeHubError
from codehub.store import migrate
from codehub.store.backup.dump import OnTable
from codehub.store.backup.file import BackupUnusable, Manifest, unpack
from codehub.store.db.connections import Connector, asyncpg_dsn, one_connection_engine

NAME = "codehub-restore"
_OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()
    AND application_name LIKE 'codehub-%' AND application_name <> ALL($1)
"""
_IDENTITIES = """
    SELECT attname::text, pg_get_serial_sequence(quote_ident($1), attname) FROM pg_attribute
    WHERE attrelid = quote_ident($1)::regclass AND attidentity <> ''
"""


class DatabaseInUse(CodeHubError):
    """A restore would overwrite what a running CodeHub, or a person, still needs."""

    code = "database_in_use"


async def restore(url: str, path: Path, *, replace: bool, on_table: OnTable) -> Manifest:
    """Make the database what it was when the backup was made, then migrate it.

    ``replace``: also if there are people in it. Raises ``BackupUnusable`` and ``DatabaseInUse``; then nothing changed.
    """
    with tempfile.TemporaryDirectory(prefix="codehub-restore-") as directory:
        manifest = unpack(path, Path(directory))
        if not migrate.is_known(manifest.revision):
            raise BackupUnusable(
                f"The backup was made by CodeHub {manifest.version} at revision {manifest.revision}, which this "
                "CodeHub does not know. Use that CodeHub, or a newer one."
            )
        engine = one_connection_engine(url, application_name=NAME)
        try:
            async with engine.begin() as connection:
                await _load(connection, manifest, Path(directory), replace=replace, on_table=on_table)
        finally:
            await engine.dispose()
    await migrate.upgrade(url)
    return manifest


async def try_restore(url: str, path: Path, *, on_table: OnTable) -> Manifest:
    """Restore a backup into a database made for it on the same server, and drop that again."""
    name = f"codehub_trial_{uuid4().hex}"
    server = await Connector(url, settings={"application_name": NAME}).connect()
    try:
        await server.execute(f"CREATE DATABASE \"{name}\" TEMPLATE template0 ENCODING 'UTF8'")
        try:
            return await restore(_on_database(url, name), path, replace=False, on_table=on_table)
        finally:
            await server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await server.close()


async def _load(
    connection: AsyncConnection, manifest: Manifest, directory: Path, *, replace: bool, on_table: OnTable
) -> None:
    await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": migrate.MIGRATION_LOCK_KEY})
    raw = await connection.get_raw_connection()
    driver: asyncpg.Connection = raw.driver_connection  # type: ignore[assignment]
    await _require_unused(driver, replace=replace)
    await connection.run_sync(migrate.rebuild, manifest.revision)
    for table in manifest.tables:
        await driver.execute(f'DELETE FROM "{table.name}"')  # what the migrations themselves put there
        await driver.execute(f'ALTER TABLE "{table.name}" DISABLE TRIGGER USER')
    for table in manifest.tables:
        source = directory / table.member
        status = await driver.copy_to_table(
            table.name, source=source, columns=list(table.columns), timeout=None
        )
        if int(status.split()[-1]) != table.rows:
            raise BackupUnusable(f"The backup is damaged: {table.name} had {table.rows} rows.")
        await driver.execute(f'ALTER TABLE "{table.name}" ENABLE TRIGGER USER')
        await _continue_numbers(driver, table.name)
        on_table(table.name, table.rows)


async def _require_unused(driver: asyncpg.Connection, *, replace: bool) -> None:
    if await driver.fetchval(_OTHERS, [NAME, "codehub-backup"]):
        raise DatabaseInUse("CodeHub works on this database. Stop every replica first, then restore.")
    if replace or await driver.fetchval("SELECT to_regclass('users')") is None:
        return
    if people := await driver.fetchval("SELECT count(*) FROM users"):
        raise DatabaseInUse(
            f"The database is not empty: it knows {people} {'person' if people == 1 else 'people'}. "
            "With --replace everything in it is replaced by the backup."
        )


async def _continue_numbers(driver: asyncpg.Connection, table: str) -> None:
    """Let identity columns go on after the highest number that was copied in."""
    for column, sequence in await driver.fetch(_IDENTITIES, table):
        await driver.execute(
            f'SELECT setval(\'{sequence}\', (SELECT coalesce(max("{column}"), 0) + 1 FROM "{table}"), false)'
        )


def _on_database(url: str, name: str) -> str:
    parts = urlsplit(asyncpg_dsn(url))
    return urlunsplit(parts._replace(path=f"/{name}"))
