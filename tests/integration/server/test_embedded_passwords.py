"""The embedded servers ask for a password, on their sockets too; nobody sees it; old directories get one."""

import json
import os
import shutil
import signal
import stat
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
import redis.asyncio as redis_client

from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import passwords, postgres, redis
from codehub.server.processes.embedded.postgres_programs import NEWEST_MAJOR, binaries, run_as
from codehub.server.processes.supervisor import launch_argv
from tests.support.instance import Instance, codehub, codehub_up, processes_of

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    return DataDir(tmp_path / "data")


@pytest.fixture
async def running(data_dir: DataDir) -> AsyncIterator[Instance]:
    async with codehub_up(data_dir.path) as instance:
        yield instance


async def test_nobody_comes_in_without_the_password(running: Instance, data_dir: DataDir) -> None:
    sockets = data_dir.sockets()
    for wrong in ("postgres", "postgres:guessed"):
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(f"postgresql://{wrong}@/codehub?host={sockets}/pg")
    for wrong in ("", "default:guessed@", "codehub:guessed@"):
        async with redis_client.Redis.from_url(f"unix://{wrong}{sockets}/redis.sock", protocol=2) as client:
            with pytest.raises(redis_client.RedisError, match=r"(?i)authenti|invalid username"):
                await client.ping()
    connection = await asyncpg.connect(postgres.url(data_dir))
    await connection.close()


async def test_redis_lets_codehub_do_no_more_than_it_needs(running: Instance, data_dir: DataDir) -> None:
    async with redis_client.Redis.from_url(redis.url(data_dir)) as client:
        assert await client.ping()
        for command in (
            ("CONFIG", "GET", "dir"),
            ("DEBUG", "SLEEP", "0"),
            ("MODULE", "LIST"),
            ("ACL", "LIST"),
            ("FLUSHALL",),
            ("SCRIPT", "FLUSH"),
            ("KEYS", "*"),
            ("CLIENT", "LIST"),
            ("REPLICAOF", "127.0.0.1", "1"),
            ("EVAL", "return redis.call('CONFIG', 'GET', 'dir')", "0"),
        ):
            with pytest.raises(redis_client.ResponseError, match=r"(?i)permission|not allowed|NOPERM"):
                await client.execute_command(*command)  # type: ignore[no-untyped-call]


async def test_passwords_are_files_of_ours_alone_and_appear_nowhere(
    running: Instance, data_dir: DataDir
) -> None:
    secrets = [passwords.find(data_dir, name) for name in (passwords.POSTGRES, passwords.REDIS)]
    assert all(secrets)
    for path in (*data_dir.secrets.iterdir(), data_dir.redis / redis.RULES):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    assert stat.S_IMODE(data_dir.secrets.stat().st_mode) == 0o700
    doctor = await codehub("doctor", CODEHUB_DATA_DIR=str(data_dir.path), LOG_LEVEL="debug")
    logs = "".join(path.read_text(errors="replace") for path in data_dir.logs.iterdir())
    seen = running.errors + "".join(running.output) + doctor.output + doctor.errors + logs
    seen += "".join(processes_of(data_dir.path).values())
    for secret in secrets:
        assert secret is not None
        assert secret not in seen


async def test_the_next_start_uses_the_same_and_a_lost_one_is_replaced(data_dir: DataDir) -> None:
    async with codehub_up(data_dir.path):
        first = passwords.find(data_dir, passwords.POSTGRES)
    async with codehub_up(data_dir.path):
        assert passwords.find(data_dir, passwords.POSTGRES) == first
    shutil.rmtree(data_dir.secrets)
    async with codehub_up(data_dir.path) as instance:
        assert passwords.find(data_dir, passwords.POSTGRES) not in {first, None}
        assert instance.password is None, "it is the same database"


async def test_a_password_of_another_installation_is_told_in_words(data_dir: DataDir) -> None:
    async with codehub_up(data_dir.path):
        pass
    passwords.keep(data_dir, passwords.POSTGRES, passwords.make())
    migrated = await codehub("migrate", CODEHUB_DATA_DIR=str(data_dir.path))
    assert migrated.code != 0
    assert "Delete that file" in migrated.errors
    assert processes_of(data_dir.path) == {}


async def test_a_data_directory_of_an_earlier_version_gets_a_password(data_dir: DataDir) -> None:
    """There ``initdb --auth=trust`` made the cluster, and a killed server left its files about."""
    make_trusting_cluster(data_dir)
    added = await codehub("user", "add", "ann", CODEHUB_DATA_DIR=str(data_dir.path))
    assert "migrate" in added.errors, "the old cluster is used, and has no schema yet"
    async with codehub_up(data_dir.path) as instance:
        assert passwords.find(data_dir, passwords.POSTGRES)
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(f"postgresql://postgres@/codehub?host={data_dir.sockets()}/pg")
        added = await codehub("user", "add", "ann", "--json", CODEHUB_DATA_DIR=str(data_dir.path))
        assert json.loads(added.output)["username"] == "ann", added.errors
        assert await instance.end(signal.SIGINT) == 0


def make_trusting_cluster(data_dir: DataDir) -> None:
    data_dir.prepare()
    user = run_as(data_dir.postgres, sockets=data_dir.path)
    data_dir.postgres.mkdir(mode=0o700)
    if user is not None:
        os.chown(data_dir.postgres, user.uid, user.gid)
    initdb = str(binaries(NEWEST_MAJOR) / "initdb")
    command = (initdb, "-D", str(data_dir.postgres), "-U", "postgres", "--auth=trust", "--encoding=UTF8")
    process = os.spawnv(os.P_WAIT, *_argv(launch_argv((*command, "--locale=C"), run_as=user)))
    assert process == 0


def _argv(command: list[str]) -> tuple[str, list[str]]:
    return command[0], command
