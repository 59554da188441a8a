"""The migrations make exactly the schema the tables describe, and can be run by anybody at any time."""

import asyncio
from typing import Any

import asyncpg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection

from codehub.store import migrate
from codehub.store.db.connections import one_connection_engine
from codehub.store.errors import DatabaseNewer
from codehub.store.schema.tables import metadata


async def fetch(url: str, query: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


async def test_up_down_and_up_again(empty_database_url: str) -> None:
    assert await migrate.current(empty_database_url) is None

    await migrate.upgrade(empty_database_url)
    assert await migrate.current(empty_database_url) == migrate.head()
    assert await migrate.is_usable(empty_database_url)

    await migrate.downgrade(empty_database_url, "base")
    assert await migrate.current(empty_database_url) is None
    left = await fetch(empty_database_url, LEFT_OVERS)
    assert left == [("alembic_version",)]

    await migrate.upgrade(empty_database_url)
    assert await migrate.is_usable(empty_database_url)


async def test_replicas_that_migrate_at_once_do_not_hurt_each_other(empty_database_url: str) -> None:
    await asyncio.gather(*(migrate.upgrade(empty_database_url) for _ in range(5)))
    assert await migrate.is_usable(empty_database_url)


async def test_a_newer_database_is_refused_with_a_sentence(database_url: str) -> None:
    await fetch(database_url, "UPDATE alembic_version SET version_num = '9999'")
    await fetch(database_url, "COMMENT ON TABLE alembic_version IS '9999'")
    for call in (
        migrate.upgrade(database_url),
        migrate.downgrade(database_url, "base"),
        migrate.current(database_url),
    ):
        with pytest.raises(DatabaseNewer, match="upgrade this program"):
            await call


async def test_a_newer_database_that_serves_this_program_is_used_and_left_alone(database_url: str) -> None:
    await fetch(database_url, "UPDATE alembic_version SET version_num = '9999'")
    await fetch(database_url, f"COMMENT ON TABLE alembic_version IS '{migrate.head()}'")
    assert await migrate.is_usable(database_url)
    await migrate.upgrade(database_url)  # an old replica that restarts during the upgrade of the others
    assert await migrate.current(database_url) == "9999"
    with pytest.raises(DatabaseNewer):
        await migrate.downgrade(database_url, "base")

    await fetch(database_url, "COMMENT ON TABLE alembic_version IS '9998'")  # the release that takes away
    with pytest.raises(DatabaseNewer):
        await migrate.is_usable(database_url)


async def test_a_migration_that_names_no_older_program_serves_none(database_url: str) -> None:
    (said,) = await fetch(database_url, "SELECT obj_description('alembic_version'::regclass)")
    assert said == (migrate.head(),)
    assert migrate.serves(migrate.head(), None)
    assert not migrate.serves("0001", migrate.head())  # an older schema has to be migrated
    assert not migrate.serves("9999", None)


async def test_a_failed_migration_leaves_nothing_behind(empty_database_url: str) -> None:
    await fetch(empty_database_url, "CREATE TABLE workspaces (in_the_way int)")
    with pytest.raises(Exception, match="already exists"):
        await migrate.upgrade(empty_database_url)
    assert await migrate.current(empty_database_url) is None
    assert await fetch(empty_database_url, LEFT_OVERS) == [("workspaces",)]


async def test_alembic_finds_no_difference(database_url: str) -> None:
    def compare(connection: Connection) -> list[Any]:
        return list(compare_metadata(MigrationContext.configure(connection), metadata))

    engine = one_connection_engine(database_url, application_name="test")
    async with engine.connect() as connection:
        assert await connection.run_sync(compare) == []
    await engine.dispose()


@pytest.mark.parametrize("what", ["columns", "indexes", "constraints", "enums"])
async def test_tables_and_migrations_agree_to_the_letter(
    what: str, database_url: str, empty_database_url: str
) -> None:
    """Alembic does not look into expressions; PostgreSQL's own rendering of both schemas does."""
    engine = one_connection_engine(empty_database_url, application_name="test")
    async with engine.begin() as connection:
        await connection.run_sync(metadata.create_all)
    await engine.dispose()

    migrated, described = (
        await fetch(database_url, CATALOG[what]),
        await fetch(empty_database_url, CATALOG[what]),
    )
    assert migrated
    assert migrated == described


LEFT_OVERS = """
    SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')
    UNION ALL SELECT typname::text FROM pg_type WHERE typnamespace = 'public'::regnamespace AND typtype = 'e'
    UNION ALL SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
"""

CATALOG = {
    "columns": """
        SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity,
               a.attgenerated, pg_get_expr(d.adbin, d.adrelid)
          FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
          LEFT JOIN pg_attrdef d ON (d.adrelid, d.adnum) = (a.attrelid, a.attnum)
         WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
           AND NOT a.attisdropped AND c.relname <> 'alembic_version'
         ORDER BY 1, 2
    """,
    "indexes": """
        SELECT tablename, indexdef FROM pg_indexes
         WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1, 2
    """,
    "constraints": """
        SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace AND conrelid <> 0
           AND conrelid::regclass::text <> 'alembic_version' ORDER BY 1, 2
    """,
    "enums": """
        SELECT t.typname, e.enumlabel FROM pg_enum e JOIN pg_type t ON t.oid = e.enumtypid
         ORDER BY t.typname, e.enumsortorder
    """,
}
