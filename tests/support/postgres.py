"""A real PostgreSQL for tests: one server per test process, one fresh migrated database per test.

The server is the embedded one CodeHub itself ships with, started from its binaries on a Unix socket in a
directory of its own (plus a loopback port where a test asks for one), without fsync because nothing
here outlives the machine. A database migrated once serves as template: a fresh copy takes milliseconds. The
template is named by the migrations' content, so a server that is kept between runs never serves an
old schema.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import asyncpg

from codehub.server.processes.embedded.postgres_programs import NEWEST_MAJOR, binaries, run_as
from codehub.server.processes.supervisor import launch_argv
from codehub.store import migrate

START_TIMEOUT_SECONDS = 60
MIGRATIONS = Path(migrate.__file__).parent / "migrations" / "versions"
SETTINGS = {
    # A commit then costs next to nothing and still survives a killed server, if not a killed machine.
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "autovacuum": "off",
    "jit": "off",
    "wal_level": "minimal",  # nobody replicates from here
    "max_wal_senders": "0",
}


class PostgresServer:
    """One server and its data. It can be stopped and started again, as often as a test likes."""

    def __init__(self, directory: Path, *, port: int | None, settings: Mapping[str, str]) -> None:
        self.directory = directory
        self.port = port  # on loopback; None: the socket only
        self._settings = {
            **SETTINGS,
            "unix_socket_directories": str(directory),
            "listen_addresses": "127.0.0.1" if port else "",
            **({"port": str(port)} if port else {}),
            **settings,
        }
        self._account = run_as(directory / "data", sockets=directory)  # PostgreSQL refuses to run as root
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def url(self, database: str) -> str:
        """Over the Unix socket."""
        port = f"&port={self.port}" if self.port else ""
        return f"postgresql://postgres@/{database}?host={self.directory}{port}"

    def tcp_url(self, database: str) -> str:
        assert self.port is not None
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def initialise(self) -> None:
        if self._account is not None:
            os.chown(self.directory, self._account.uid, self._account.gid)
        options = ("-U", "postgres", "-A", "trust", "-E", "utf8", "--no-sync", "--locale=C")
        subprocess.run(
            self.command("initdb", "-D", str(self.directory / "data"), *options),
            check=True,
            capture_output=True,
            cwd="/",
        )

    def start(self) -> None:
        """Returns once it answers."""
        settings = (f"--{key.replace('_', '-')}={value}" for key, value in self._settings.items())
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command("postgres", "-D", str(self.directory / "data"), *settings),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for pytest, which then stops the server in order.
                start_new_session=True,
                cwd="/",
            )
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.directory / 'log').read_text()}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGQUIT) -> None:
        """SIGQUIT: at once, as in a crash, because nothing here is worth a checkpoint. SIGINT: in order."""
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(timeout=START_TIMEOUT_SECONDS)
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """SIGSTOP: the kernel accepts connections and takes what is sent, and nobody ever answers."""
        os.kill(self.pid, signal.SIGSTOP)  # first: it starts no more of the others then
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        stopped = [self.pid, *map(int, children)]
        for pid in stopped[1:]:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def _answers(self) -> bool:
        where = ("-h", self.directory, "-p", str(self.port or 5432), "-d", "postgres")
        return subprocess.run([_binary("pg_isready"), "-q", *where], check=False).returncode == 0

    def command(self, name: str, *arguments: str) -> list[str]:
        """How to run one of PostgreSQL's programs as the server's own user."""
        return launch_argv((str(_binary(name)), *arguments), run_as=self._account)


@contextmanager
def run_server(*, port: int | None = None, **settings: str) -> Iterator[PostgresServer]:
    """Start a server in a directory of its own; stop it and remove the directory afterwards."""
    # Short, because the path of a Unix socket may have 107 bytes at most.
    directory = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    server = PostgresServer(directory, port=port, settings=settings)
    try:
        server.initialise()
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def run_sql(url: str, statement: str) -> None:
    """With psql, and blocking: nothing of this process runs meanwhile."""
    subprocess.run([_binary("psql"), url, "-qXc", statement], check=True, capture_output=True)


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


def _binary(name: str) -> Path:
    return binaries(NEWEST_MAJOR) / name
