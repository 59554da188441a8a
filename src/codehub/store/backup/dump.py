"""Copy every table into a backup file, as of one moment.

One read-only transaction with one snapshot: CodeHub may go on meanwhile. Nothing is locked that a write waits for.
"""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path

import asyncpg

from codehub import __version__
from codehub.store import migrate
from codehub.store.backup.file import BackupUnusable, Manifest, TableCopy, checksum_of, write
from codehub.store.db.connections import Connector

OnTable = Callable[[str, int], None]
"""Is told each table that was copied, and how many rows it has."""

LEFT_OUT = frozenset({"alembic_version", "sessions"})
_TABLES = """
    SELECT relname, ARRAY(
        SELECT attname::text FROM pg_attribute
        WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
        ORDER BY attnum
    ) FROM pg_class c WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY relname
"""
_PARENTS = """
    SELECT child.relname, parent.relname FROM pg_constraint
    JOIN pg_class child ON child.oid = conrelid JOIN pg_class parent ON parent.oid = confrelid
    WHERE contype = 'f' AND conrelid <> confrelid AND connamespace = current_schema()::regnamespace
"""


async def dump(url: str, path: Path, *, on_table: OnTable) -> Manifest:
    """Write the backup of a database to ``path``. Raises ``BackupUnusable`` if there is none to make."""
    revision = await migrate.current(url)
    if revision is None:
        raise BackupUnusable("The database is empty: there is nothing to back up.")
    connector = Connector(url, settings={"application_name": "codehub-backup", "statement_timeout": "0"})
    connection = await connector.connect()
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as directory:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                manifest = await _copy_all(connection, revision, Path(directory), on_table=on_table)
            write(path, manifest, Path(directory))
    finally:
        await connection.close()
    return manifest


async def _copy_all(
    connection: asyncpg.Connection, revision: str, directory: Path, *, on_table: OnTable
) -> Manifest:
    (directory / "tables").mkdir()
    columns: Mapping[str, list[str]] = {row[0]: row[1] for row in await connection.fetch(_TABLES)}
    pairs = [(child, parent) for child, parent in await connection.fetch(_PARENTS)]
    made_at: datetime = await connection.fetchval("SELECT clock_timestamp()")
    installation_id = await connection.fetchval("SELECT id FROM installation")
    copies = []
    for name in parents_first(columns.keys() - LEFT_OUT, pairs):
        copies.append(await _copy(connection, name, columns[name], directory))
        on_table(name, copies[-1].rows)
    return Manifest(
        version=__version__,
        revision=revision,
        installation_id=str(installation_id),
        made_at=made_at.isoformat(),
        tables=tuple(copies),
    )


async def _copy(connection: asyncpg.Connection, name: str, columns: list[str], directory: Path) -> TableCopy:
    target = directory / "tables" / f"{name}.copy"
    status = await connection.copy_from_table(name, columns=columns, output=target, timeout=None)
    return TableCopy(
        name=name,
        columns=tuple(columns),
        rows=int(status.split()[-1]),
        size=target.stat().st_size,
        sha256=checksum_of(target),
    )


def parents_first(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> list[str]:
    """Sort tables so that none comes before one it refers to. ``pairs``: (child, parent)."""
    waiting = {name: {parent for child, parent in pairs if child == name} for name in sorted(names)}
    found: list[str] = []
    while waiting:
        free = [name for name, parents in waiting.items() if not parents & waiting.keys()]
        if not free:
            raise AssertionError(f"tables refer to each other in a circle: {sorted(waiting)}")
        found += free
        for name in free:
            del waiting[name]
    return found
