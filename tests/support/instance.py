"""A CodeHub of one's own: the real command in a real process, with its own data directory and port."""

import asyncio
import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import httpx

from codehub.server.processes.supervisor import RunAs, launch_argv

COMMAND = (sys.executable, "-m", "codehub.cli.main")
READY = re.compile(r"CodeHub is ready: (http://\S+)")
PASSWORD = re.compile(r"First user admin, password (\S+)")
SECONDS_TO_START = 90.0
SECONDS_TO_STOP = 60.0

# Settings of whoever runs the tests must not reach the CodeHub under test.
OURS = re.compile(
    r"^(CODEHUB_(?!TEST_)|COORDINATOR_|OBSERVER_|RECONCILER_|TTL_|GC_|LIMITS_|REDIS_|LOG_|LOCAL_IMAGES|"
    r"DATABASE_URL|ARCHIVE_URL)"
)


def process_variables(**variables: str) -> dict[str, str]:
    """The environment of this process without CodeHub's variables, plus these."""
    return {**{key: value for key, value in os.environ.items() if not OURS.match(key)}, **variables}


@dataclass
class Instance:
    """A running ``codehub up``."""

    process: asyncio.subprocess.Process
    log: IO[bytes]  # a file: a pipe nobody empties would stop it once it is full
    output: list[str] = field(default_factory=list)
    url: str = ""

    @property
    def errors(self) -> str:
        """What it logged so far."""
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    @property
    def password(self) -> str | None:
        """The first password it printed, if it made one."""
        found = PASSWORD.search("".join(self.output))
        return found.group(1) if found else None

    async def wait_until_ready(self) -> None:
        async with asyncio.timeout(SECONDS_TO_START):
            assert self.process.stdout is not None
            while not self.url:
                line = (await self.process.stdout.readline()).decode()
                if not line:
                    raise AssertionError("codehub ended:\n" + self.errors)
                self.output.append(line)
                if found := READY.search(line):
                    self.url = found.group(1)

    async def end(self, with_signal: signal.Signals = signal.SIGINT) -> int:
        """Send the signal and wait for the end; gives the exit code."""
        if self.process.returncode is None:
            self.process.send_signal(with_signal)
        output, _ = await asyncio.wait_for(self.process.communicate(), SECONDS_TO_STOP)
        self.output.append(output.decode())
        assert self.process.returncode is not None
        return self.process.returncode


@contextlib.asynccontextmanager
async def codehub_up(
    data_dir: Path,
    *,
    bind: str = "127.0.0.1:0",
    ready: bool = True,
    umask: int = -1,
    run_as: RunAs | None = None,
    **variables: str,
) -> AsyncIterator[Instance]:
    """``codehub up`` in ``data_dir``; whatever the test leaves of it is ended. ``run_as``: if we are root."""
    with tempfile.TemporaryFile("a+b") as log:  # appending: reading it does not move where it is written
        process = await asyncio.create_subprocess_exec(
            *((*COMMAND, "up") if run_as is None else launch_argv((*COMMAND, "up"), run_as=run_as)),
            env=process_variables(CODEHUB_DATA_DIR=str(data_dir), CODEHUB_BIND=bind, **variables),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            umask=umask,
        )
        instance = Instance(process, log)
        try:
            if ready:
                await instance.wait_until_ready()
            yield instance
        finally:
            if process.returncode is None:
                await instance.end()


@dataclass(frozen=True)
class Outcome:
    code: int
    output: str
    errors: str


async def codehub(*arguments: str, stdin: str = "", **variables: str) -> Outcome:
    """Run a command to its end."""
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        *arguments,
        env=process_variables(**variables),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await asyncio.wait_for(process.communicate(stdin.encode()), SECONDS_TO_START)
    assert process.returncode is not None
    return Outcome(process.returncode, output.decode(), errors.decode())


def processes_of(data_dir: Path) -> Mapping[int, str]:
    """Living processes that have to do with this data directory: by command line or working directory."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            directory = os.readlink(entry / "cwd")
            if str(data_dir) in command or directory.startswith(str(data_dir)):
                found[int(entry.name)] = command or directory
    return found


async def until_gone(data_dir: Path, *, timeout: float = 30.0) -> None:
    """Return once nothing of this data directory runs any more."""
    async with asyncio.timeout(timeout):
        while processes_of(data_dir):
            await asyncio.sleep(0.05)


def proxy_pid(instance: Instance) -> int | None:
    """The proxy among the children of this very instance."""
    return next(iter(proxy_pids(instance)), None)


def proxy_pids(instance: Instance) -> list[int]:
    """The proxies among the children of this very instance, the oldest first."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if not entry.name.isdecimal() or _parent(entry) != instance.process.pid:
                continue
            if b"codehub.server.proxy.process" in (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
    return sorted(found)


def _parent(entry: Path) -> int:
    return int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])


async def status_of(url: str) -> int:
    """Return what the address answers, 0 while nobody does."""
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            return (await client.get(url)).status_code
    except httpx.TransportError:
        return 0
