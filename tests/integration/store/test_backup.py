"""A backup holds everything the database knows, as of one moment; a restore brings back all of it or nothing."""

import asyncio
import gzip
import io
import json
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from codehub.store import migrate
from codehub.store.backup.dump import dump, parents_first
from codehub.store.backup.file import BackupUnusable
from codehub.store.backup.load import DatabaseInUse, restore, try_restore
from codehub.store.db import connections
from codehub.store.db.session import Session
from tests.integration.store.factory import make_user, make_workspace

TABLES = "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
NOT_COPIED = {"alembic_version", "sessions"}


def quietly(table: str, rows: int) -> None:
    pass


async def fetch(url: str, query: str) -> list[Any]:
    connection = await asyncpg.connect(url)
    try:
        return [tuple(row) for row in await connection.fetch(query)]
    finally:
        await connection.close()


@asynccontextmanager
async def a_session(url: str) -> AsyncIterator[Session]:
    pool = connections.create_pool(url, pool_size=1)
    try:
        async with connections.session_factory(pool)() as session:
            yield session
    finally:
        await pool.dispose()


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def damage_file(path: Path, damage: Any) -> None:
    path.write_bytes(damage(path))


def names_in(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


async def contents(url: str) -> dict[str, list[Any]]:
    """Every row of every table that a backup holds, derived columns included."""
    names = [name for (name,) in await fetch(url, TABLES) if name not in NOT_COPIED]
    return {name: sorted(await fetch(url, f"SELECT t::text FROM {name} t")) for name in names}


@pytest.fixture
async def filled(database_url: str) -> str:
    """A database with people, workspaces in several states and their history, which nobody uses."""
    async with a_session(database_url) as session:
        owner = await make_user(session, "ann")
        await make_workspace(session, owner, name='odd "name"\t\\N\n한글', observed_status="STANDBY")
        await make_workspace(session, owner, operation="STARTING", observed_status="STANDBY")
        await make_workspace(session, archive_key="k/home.tar.zst")
    await fetch(database_url, "INSERT INTO audit_log (actor, action) VALUES ('ann', 'test')")
    await fetch(
        database_url,
        "INSERT INTO sessions (id, user_id, secret_hash, idle_expires_at, expires_at) "
        "SELECT gen_random_uuid(), id, 'h', now(), now() FROM users WHERE username = 'ann'",
    )
    return database_url


@pytest.fixture
async def backup(filled: str, tmp_path: Path) -> Path:
    path = tmp_path / "codehub.backup"
    await dump(filled, path, on_table=quietly)
    return path


async def test_everything_comes_back_and_goes_on(filled: str, backup: Path, empty_database_url: str) -> None:
    assert mode_of(backup) == 0o600
    before = await contents(filled)
    assert len(before["workspaces"]) == 3
    assert before["workspace_events"]

    manifest = await restore(empty_database_url, backup, replace=False, on_table=quietly)

    assert manifest.rows_of("workspaces") == 3
    assert await contents(empty_database_url) == before
    assert await fetch(empty_database_url, "SELECT * FROM sessions") == []
    assert await migrate.is_usable(empty_database_url)
    # History is written again, with numbers nobody had.
    (highest,) = (await fetch(filled, "SELECT max(seq) FROM workspace_events"))[0]
    await fetch(empty_database_url, "UPDATE workspaces SET memo = 'changed'")
    after = await fetch(empty_database_url, f"SELECT seq FROM workspace_events WHERE seq > {highest}")
    assert len(after) == 3


async def test_a_backup_is_of_one_moment(database_url: str, empty_database_url: str, tmp_path: Path) -> None:
    """Each person comes with a workspace, in one transaction."""
    busy = asyncio.Event()

    async def write_on() -> None:
        async with a_session(database_url) as session:
            while True:
                await make_workspace(session)
                busy.set()

    async with asyncio.TaskGroup() as group:
        writer = group.create_task(write_on())
        await busy.wait()
        for number in range(5):
            await dump(database_url, tmp_path / f"{number}", on_table=quietly)
        writer.cancel()
    for number in range(5):
        manifest = await restore(empty_database_url, tmp_path / f"{number}", replace=True, on_table=quietly)
        assert manifest.rows_of("users") == manifest.rows_of("workspaces")


async def test_an_older_backup_is_migrated(empty_database_url: str, tmp_path: Path) -> None:
    await migrate.upgrade(empty_database_url, "0002")
    await fetch(
        empty_database_url,
        "INSERT INTO users (id, username, password_hash) VALUES (gen_random_uuid(), 'ann', 'x')",
    )
    made = await dump(empty_database_url, tmp_path / "old", on_table=quietly)
    assert made.revision == "0002"
    await migrate.upgrade(empty_database_url)

    await restore(empty_database_url, tmp_path / "old", replace=True, on_table=quietly)

    assert await migrate.current(empty_database_url) == migrate.head()
    assert await fetch(empty_database_url, "SELECT username FROM users") == [("ann",)]


async def test_people_are_not_overwritten_unasked(filled: str, backup: Path) -> None:
    await fetch(filled, "UPDATE users SET username = 'since' WHERE username = 'ann'")
    before = await contents(filled)
    with pytest.raises(DatabaseInUse, match="--replace"):
        await restore(filled, backup, replace=False, on_table=quietly)
    assert await contents(filled) == before

    await restore(filled, backup, replace=True, on_table=quietly)
    assert ("ann",) in await fetch(filled, "SELECT username FROM users")


async def test_a_database_in_use_is_left_alone(backup: Path, empty_database_url: str) -> None:
    connector = connections.Connector(empty_database_url, settings={"application_name": "codehub-api"})
    replica = await connector.connect()
    try:
        with pytest.raises(DatabaseInUse, match="Stop every replica"):
            await restore(empty_database_url, backup, replace=True, on_table=quietly)
    finally:
        await replica.close()
    assert await fetch(empty_database_url, TABLES) == []


async def test_a_restore_that_fails_in_the_middle_changes_nothing(filled: str, backup: Path) -> None:
    before = await contents(filled)

    def fail(table: str, rows: int) -> None:
        if table == "workspaces":
            raise RuntimeError("the machine goes down")

    with pytest.raises(RuntimeError):
        await restore(filled, backup, replace=True, on_table=fail)
    assert await contents(filled) == before
    assert (
        await fetch(filled, "SELECT tgenabled FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'O'")
        == []
    )


async def test_a_trial_restores_and_leaves_nothing(filled: str, backup: Path) -> None:
    databases = await fetch(filled, "SELECT datname FROM pg_database WHERE datname LIKE 'codehub_trial_%'")
    before = await contents(filled)
    manifest = await try_restore(filled, backup, on_table=quietly)
    assert manifest.rows_of("users") == len(before["users"])
    assert await contents(filled) == before
    left = await fetch(filled, "SELECT datname FROM pg_database WHERE datname LIKE 'codehub_trial_%'")
    assert set(left) <= set(databases)


def repacked(backup: Path, change: Any) -> bytes:
    """The backup with its members changed by ``change(name, content) -> content``."""
    packed = io.BytesIO()
    with tarfile.open(backup) as source, tarfile.open(fileobj=packed, mode="w:gz") as target:
        for member in source:
            found = source.extractfile(member)
            assert found is not None
            content = change(member.name, found.read())
            member.size = len(content)
            target.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def with_manifest(**values: Any) -> Any:
    def change(name: str, content: bytes) -> bytes:
        return json.dumps({**json.loads(content), **values}).encode() if name == "manifest.json" else content

    return change


def add_a_row(name: str, content: bytes) -> bytes:
    return content + content[: content.index(b"\n") + 1] if name == "tables/users.copy" else content


def swap_a_letter(name: str, content: bytes) -> bytes:
    return content.replace(b"ann", b"eve") if name == "tables/users.copy" else content


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        pytest.param(lambda path: path.read_bytes()[:-200], "damaged", id="cut short"),
        pytest.param(lambda path: b"", "not a backup", id="empty"),
        pytest.param(lambda path: b"hello", "not a backup", id="something else"),
        pytest.param(lambda path: gzip.compress(b"hello" * 1000), "not a backup", id="packed something else"),
        pytest.param(
            lambda path: repacked(path, swap_a_letter), "damaged: the rows of users", id="other rows"
        ),
        pytest.param(lambda path: repacked(path, add_a_row), "damaged: the rows of users", id="more rows"),
        pytest.param(
            lambda path: repacked(path, with_manifest(format="x-9")), "newer one", id="other format"
        ),
        pytest.param(lambda path: repacked(path, with_manifest(revision="9999")), "newer one", id="newer"),
        pytest.param(lambda path: repacked(path, with_manifest(tables=7)), "damaged", id="odd manifest"),
        pytest.param(
            lambda path: repacked(
                path,
                with_manifest(tables=[{"name": "../x", "columns": [], "rows": 0, "size": 0, "sha256": ""}]),
            ),
            "damaged",
            id="a path as a table",
        ),
    ],
)
async def test_a_file_that_is_not_as_it_was_made_is_refused(
    damage: Any, words: str, filled: str, backup: Path
) -> None:
    before = await contents(filled)
    damage_file(backup, damage)
    with pytest.raises(BackupUnusable, match=words):
        await restore(filled, backup, replace=True, on_table=quietly)
    assert await contents(filled) == before


async def test_a_missing_file_and_an_empty_database_are_said(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    with pytest.raises(BackupUnusable, match="no file"):
        await restore(database_url, tmp_path / "none", replace=True, on_table=quietly)
    with pytest.raises(BackupUnusable, match="nothing to back up"):
        await dump(empty_database_url, tmp_path / "new", on_table=quietly)
    assert names_in(tmp_path) == []


def test_parents_come_first() -> None:
    pairs = [("workspaces", "users"), ("tokens", "users"), ("shares", "workspaces"), ("shares", "users")]
    order = parents_first({"shares", "workspaces", "users", "tokens", "audit"}, pairs)
    assert all(order.index(parent) < order.index(child) for child, parent in pairs)
    with pytest.raises(AssertionError, match="circle"):
        parents_first({"a", "b"}, [("a", "b"), ("b", "a")])
