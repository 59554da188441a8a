"""``codehub up`` as a newcomer meets it: real processes, started, stopped, killed, started again."""

import asyncio
import json
import os
import resource
import shutil
import signal
import sys
from pathlib import Path

import asyncpg
import pytest

from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import postgres, redis
from tests.support.instance import (
    codehub,
    codehub_up,
    process_variables,
    processes_of,
    proxy_pid,
    status_of,
    until_gone,
)

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


async def usernames(data_dir: Path) -> list[str]:
    outcome = await codehub("user", "list", "--json", CODEHUB_DATA_DIR=str(data_dir))
    assert outcome.code == 0, outcome.errors
    return [user["username"] for user in json.loads(outcome.output)]


async def test_ctrl_c_leaves_no_process_and_the_next_start_finds_the_data(data_dir: Path) -> None:
    async with codehub_up(data_dir) as first:
        assert await status_of(f"{first.url}/health/ready") == 200
        assert await status_of(f"{first.url}/health/live") == 200
        assert first.password, "the first password is printed"
        added = await codehub("user", "add", "ann", CODEHUB_DATA_DIR=str(data_dir))
        assert added.code == 0, added.errors
        assert await first.end(signal.SIGINT) == 0
    assert processes_of(data_dir) == {}

    async with codehub_up(data_dir) as second:
        assert second.password is None, "the first password is printed once"
        assert await usernames(data_dir) == ["admin", "ann"]
        assert await second.end(signal.SIGTERM) == 0
    assert processes_of(data_dir) == {}
    # And with nothing running, commands bring the database up for a moment.
    assert await usernames(data_dir) == ["admin", "ann"]
    assert processes_of(data_dir) == {}


async def test_kill_9_stops_nothing_from_starting_again(data_dir: Path) -> None:
    async with codehub_up(data_dir) as first:
        assert processes_of(data_dir)
        await first.end(signal.SIGKILL)
    async with codehub_up(data_dir) as second:
        assert await status_of(f"{second.url}/health/ready") == 200
        assert await usernames(data_dir) == ["admin"]
    assert processes_of(data_dir) == {}


async def test_embedded_servers_die_with_a_killed_codehub(data_dir: Path) -> None:
    async with codehub_up(data_dir) as instance:
        await instance.end(signal.SIGKILL)
    await until_gone(data_dir)


async def test_orphaned_servers_are_found_and_replaced(data_dir: Path) -> None:
    """Given a PostgreSQL and a Redis nobody owns, as when the kernel missed their parent's end."""
    async with codehub_up(data_dir) as first:
        assert await first.end() == 0
    orphans = await start_orphans(DataDir(data_dir))
    assert orphans <= set(processes_of(data_dir))

    async with codehub_up(data_dir) as second:
        assert await status_of(f"{second.url}/health/ready") == 200
        assert not orphans & set(processes_of(data_dir)), "the old ones are gone"
    assert processes_of(data_dir) == {}


async def test_a_stale_pid_file_that_names_a_living_process_does_not_matter(data_dir: Path) -> None:
    async with codehub_up(data_dir) as first:
        assert await first.end() == 0
    pid_file = data_dir / "postgres" / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{data_dir}/postgres\n1700000000\n5432\n\n\n\n")
    shutil.copystat(data_dir / "postgres" / "PG_VERSION", pid_file)
    owner = (data_dir / "postgres").stat()
    os.chown(pid_file, owner.st_uid, owner.st_gid)
    async with codehub_up(data_dir) as second:
        assert await status_of(f"{second.url}/health/ready") == 200


async def test_a_killed_initdb_leaves_nothing_that_looks_like_a_database(data_dir: Path) -> None:
    (data_dir / "postgres.unfinished" / "base").mkdir(parents=True)
    (data_dir / "postgres.unfinished" / "PG_VERSION").write_text("18\n")
    async with codehub_up(data_dir) as instance:
        assert await status_of(f"{instance.url}/health/ready") == 200
    assert not (data_dir / "postgres.unfinished").exists()


async def test_ctrl_c_while_starting_leaves_no_process(data_dir: Path) -> None:
    async with codehub_up(data_dir, ready=False) as instance:
        async with asyncio.timeout(60):
            while not processes_of(data_dir):
                await asyncio.sleep(0.01)
        await instance.end(signal.SIGINT)
    await until_gone(data_dir, timeout=5)
    async with codehub_up(data_dir) as second:
        assert await status_of(f"{second.url}/health/ready") == 200


async def test_two_instances_side_by_side(tmp_path: Path) -> None:
    async with (
        codehub_up(tmp_path / "one", CODEHUB_ADMIN_PASSWORD="correct horse one") as one,
        codehub_up(tmp_path / "two") as two,
    ):
        assert one.url != two.url
        assert one.password is None
        assert two.password is not None
        added = await codehub("user", "add", "ann", CODEHUB_DATA_DIR=str(tmp_path / "one"))
        assert added.code == 0, added.errors
        assert await usernames(tmp_path / "one") == ["admin", "ann"]
        assert await usernames(tmp_path / "two") == ["admin"]
        assert await one.end() == 0
        assert await status_of(f"{two.url}/health/ready") == 200


async def test_a_database_that_dies_is_brought_back(data_dir: Path) -> None:
    async with codehub_up(data_dir) as instance:
        pid = postmaster(data_dir)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            while postmaster(data_dir) in {pid, None}:
                await asyncio.sleep(0.05)
            while await status_of(f"{instance.url}/health/ready") != 200:
                await asyncio.sleep(0.05)
        assert await instance.end() == 0
    assert processes_of(data_dir) == {}


@pytest.mark.parametrize("name", ["long" * 30, "with space, comma and 코드허브"])
async def test_a_data_directory_with_a_path_unfit_for_sockets(tmp_path: Path, name: str) -> None:
    """A socket's name has 107 bytes at most, and addresses have characters of their own."""
    data_dir = tmp_path / name / "data"
    async with codehub_up(data_dir) as instance:
        short = DataDir(data_dir).sockets()
        assert len(str(short)) < 86
        assert (short.stat().st_mode & 0o777) == 0o700
        assert await usernames(data_dir) == ["admin"]
        assert await instance.end() == 0
    assert not short.exists()


async def test_configured_servers_are_used_and_nothing_is_embedded(
    data_dir: Path, empty_database_url: str, redis_url: str
) -> None:
    async with codehub_up(data_dir, DATABASE_URL=empty_database_url, REDIS_URL=redis_url) as instance:
        assert await status_of(f"{instance.url}/health/ready") == 200
        assert not (data_dir / "postgres").exists()
        connection = await asyncpg.connect(empty_database_url)
        try:
            assert await connection.fetchval("SELECT username FROM users") == "admin"
        finally:
            await connection.close()


def postmaster(data_dir: Path) -> int | None:
    try:
        return int((data_dir / "postgres" / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, IndexError):
        return None


async def start_orphans(data_dir: DataDir) -> set[int]:
    """Start both embedded servers so that nobody owns them, and give their process ids."""
    program = f"""
import asyncio, os, subprocess
from pathlib import Path
from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import postgres, redis
from codehub.server.processes.supervisor import launch_argv

async def main():
    data_dir = DataDir(Path({str(data_dir.path)!r}))
    sockets = data_dir.sockets_in_use()
    sockets.__enter__()  # and never left: it is killed
    for spec in (await postgres.child(data_dir), redis.child(data_dir)):
        await spec.before_start()
        process = subprocess.Popen(
            launch_argv(spec.argv, run_as=spec.run_as), start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        while not await spec.is_ready():
            await asyncio.sleep(0.05)
        print(process.pid, flush=True)
    os._exit(0)

asyncio.run(main())
"""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, env=process_variables(), stdout=asyncio.subprocess.PIPE
    )
    output, _ = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0
    assert postgres.is_running(data_dir)
    assert redis.is_running(data_dir)
    return {int(line) for line in output.split()}


async def test_the_proxy_may_hold_more_connections_than_a_shell_allows(data_dir: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))  # inherited, as from a login
    try:
        async with codehub_up(data_dir) as instance:
            proxy = proxy_pid(instance)
            assert proxy is not None
            assert resource.prlimit(proxy, resource.RLIMIT_NOFILE) == (hard, hard)
            server = resource.prlimit(instance.process.pid, resource.RLIMIT_NOFILE)
            assert server == (1024, hard), "which workspaces inherit"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
