"""What stands in the way of a start is said in a sentence, with what to do; no traceback, exit code 1."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from codehub.store import migrate
from tests.support.instance import Outcome, codehub, codehub_up

pytestmark = pytest.mark.timeout(240)


def assert_refused(outcome: Outcome, *words: str) -> None:
    assert outcome.code == 1, outcome
    assert "Traceback" not in outcome.errors + outcome.output
    for word in words:
        assert word in outcome.errors


@pytest.fixture
def taken_port() -> Iterator[int]:
    with contextlib.closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        yield taken.getsockname()[1]


async def test_port_taken(tmp_path: Path, taken_port: int) -> None:
    outcome = await codehub(
        "up", CODEHUB_DATA_DIR=str(tmp_path / "data"), CODEHUB_BIND=f"127.0.0.1:{taken_port}"
    )
    assert_refused(outcome, f"Port {taken_port}", "taken", "CODEHUB_BIND=")
    assert not (tmp_path / "data").exists(), "said before anything was made"


@pytest.mark.parametrize("command", ["up", "serve", "migrate"])
async def test_data_directory_that_cannot_be(tmp_path: Path, command: str) -> None:
    (tmp_path / "file").write_text("in the way")
    data_dir = tmp_path / "file" / "data"
    outcome = await codehub(command, CODEHUB_DATA_DIR=str(data_dir), CODEHUB_BIND="127.0.0.1:0")
    assert_refused(outcome, str(data_dir), "CODEHUB_DATA_DIR")


async def test_data_directory_of_another_instance(tmp_path: Path) -> None:
    async with codehub_up(tmp_path / "data") as first:
        outcome = await codehub("up", CODEHUB_DATA_DIR=str(tmp_path / "data"), CODEHUB_BIND="127.0.0.1:0")
        assert_refused(outcome, str(tmp_path / "data"), f"process {first.process.pid}", "CODEHUB_DATA_DIR")


@pytest.mark.parametrize("command", ["up", "serve", "migrate"])
async def test_unreachable_database(tmp_path: Path, command: str, redis_url: str) -> None:
    with contextlib.closing(socket.socket()) as nobody_listens:
        nobody_listens.bind(("127.0.0.1", 0))
        port = nobody_listens.getsockname()[1]
        outcome = await codehub(
            command,
            CODEHUB_DATA_DIR=str(tmp_path / "data"),
            CODEHUB_BIND="127.0.0.1:0",
            DATABASE_URL=f"postgresql://ann:s3cret@127.0.0.1:{port}/codehub",
            REDIS_URL=redis_url,
        )
    assert_refused(outcome, f"127.0.0.1:{port}", "DATABASE_URL")
    assert "s3cret" not in outcome.errors + outcome.output


async def test_missing_database(tmp_path: Path, empty_database_url: str, redis_url: str) -> None:
    url = empty_database_url.replace("/test_", "/no_such_")
    outcome = await codehub(
        "serve",
        CODEHUB_DATA_DIR=str(tmp_path / "data"),
        CODEHUB_BIND="127.0.0.1:0",
        DATABASE_URL=url,
        REDIS_URL=redis_url,
    )
    assert_refused(outcome, "does not exist", "DATABASE_URL")


@pytest.mark.parametrize("command", ["up", "serve", "migrate"])
async def test_newer_database(tmp_path: Path, command: str, database_url: str, redis_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("UPDATE alembic_version SET version_num = 'from_the_future'")
        await connection.execute("COMMENT ON TABLE alembic_version IS 'from_the_future'")
    finally:
        await connection.close()
    outcome = await codehub(
        command,
        CODEHUB_DATA_DIR=str(tmp_path / "data"),
        CODEHUB_BIND="127.0.0.1:0",
        DATABASE_URL=database_url,
        REDIS_URL=redis_url,
    )
    assert_refused(outcome, "from_the_future", "newer CodeHub", "upgrade")


async def test_serve_without_migrating(tmp_path: Path, empty_database_url: str, redis_url: str) -> None:
    settings = {
        "CODEHUB_DATA_DIR": str(tmp_path / "data"),
        "CODEHUB_BIND": "127.0.0.1:0",
        "DATABASE_URL": empty_database_url,
        "REDIS_URL": redis_url,
    }
    assert_refused(await codehub("serve", "--no-migrate", **settings), "codehub migrate")
    migrated = await codehub("migrate", **settings)
    assert migrated.code == 0
    assert migrate.head() in migrated.output


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("CODEHUB_BIND", "everywhere", "everywhere"),
        ("RECONCILER_INTERVAL", "often", "often"),
        ("LOCAL_IMAGES", "[]", "JSON object"),
        ("CODEHUB_ROLES", "api,cook", "cook"),
        ("DATABASE_URL_FILE", "/no/such/file", "/no/such/file"),
    ],
)
async def test_wrong_setting(variable: str, value: str, shown: str) -> None:
    assert_refused(await codehub("up", **{variable: value}), variable, shown)


async def test_a_wrong_secret_is_not_shown() -> None:
    outcome = await codehub("up", DATABASE_URL="mysql://ann:s3cret@host/db")
    assert_refused(outcome, "DATABASE_URL", "postgresql://")
    assert "s3cret" not in outcome.errors
