"""People inside a workspace while proxies and replicas are killed: commands, terminals, uploads, SSH.

Whoever is cut is told. Nothing that ended with its connection goes on, no lease is left, no file is half written; what
was to stay, stays: shells of terminals and detached processes.
"""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from codehub.domain.ttl import LEASE_SECONDS
from tests.chaos.environment import ChaosEnvironment, chaos_environment, client
from tests.chaos.replica import Replica
from tests.support.instance import COMMAND
from tests.support.requirements import require_inside
from tests.support.ssh_shell import Ended, SshShell
from tests.support.terminal_client import terminal
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("chaos-round")]

ORPHAN_SECONDS = 90.0
NAME = "thesis"


class People:
    """Everybody who is inside, through one replica. Their programs sleep for a time that is a mark to find them by."""

    def __init__(
        self, environment: ChaosEnvironment, replica: Replica, workspace_id: str, shell: SshShell, mark: int
    ) -> None:
        self._environment = environment
        self._url = replica.url
        self._path = f"{replica.url}/api/v1/workspaces/{workspace_id}"
        self._workspace_id = workspace_id
        self._shell = shell
        self._mark = mark
        self._headers = {"Authorization": f"Bearer {environment.token}"}
        self._tasks: list[asyncio.Task[Ended | int | str]] = []
        self.shell_pid: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def enter(self) -> None:
        """Everybody begins; returns when all are in the middle of it."""
        parts = (self._command(), self._ssh(), self._socket(), self._upload(), self._terminal())
        self._tasks = [asyncio.create_task(each) for each in parts]
        await self.shell_pid

        async def all_run() -> bool:
            for task in self._tasks:
                assert not task.done(), task
            return len(sleeping(self._mark)) == 3 and bool(self._temporary())

        await until(all_run, seconds=120, what="everybody to be in the middle")

    async def told(self) -> None:
        """Each of them ends, with words."""
        async with asyncio.timeout(60):
            command, ssh, socket, upload, shell = await asyncio.gather(*self._tasks)
        for ended in (command, ssh):
            assert isinstance(ended, Ended)
            assert ended.code not in (0, None), ended
            assert ended.errors.strip(), "a message"
        assert socket == "cut"
        assert upload == "cut"
        assert shell != 1000  # not as if the person had left

    async def nothing_is_left(self) -> None:
        async def gone() -> bool:
            return not sleeping(self._mark) and not self._temporary()

        await until(gone, seconds=ORPHAN_SECONDS, what="the end of what they had started")
        assert (self._home / "paper").read_bytes() == b"old"

    @property
    def _home(self) -> Path:
        return self._environment.setup.home(self._workspace_id)

    def _temporary(self) -> list[str]:
        return [each.name for each in self._home.iterdir() if ".part" in each.name]

    def _script(self) -> str:
        return f"setsid sleep {self._mark} & wait"

    async def _command(self) -> Ended:
        return await self._shell.run(*COMMAND, "exec", NAME, "--", "sh", "-c", self._script())

    async def _ssh(self) -> Ended:
        return await self._shell.codehub_ssh(NAME, self._script())

    async def _socket(self) -> str:
        address = f"{self._path}/exec".replace("http", "ws", 1)
        async with connect(address, additional_headers=self._headers, proxy=None) as socket:
            await socket.send(json.dumps({"argv": ["sh", "-c", self._script()]}))
            try:
                while True:
                    assert "exit" not in str(await socket.recv())
            except ConnectionClosed:
                return "cut"

    async def _upload(self) -> str:
        async def half() -> AsyncIterator[bytes]:
            yield b"n" * 1_000_000
            while True:  # who only waits would not notice that nobody is there
                await asyncio.sleep(0.1)
                yield b"n" * 1000

        async with client(self._environment, timeout=300) as caller:
            try:
                answer = await caller.put(f"{self._path}/files/content?path=paper", content=half())
            except httpx.TransportError:
                return "cut"
            return "cut" if answer.is_server_error else answer.text

    async def _terminal(self) -> int:
        async with terminal(self._url, self._workspace_id, self._headers, client="page") as shell:
            self.shell_pid.set_result(await shell.shell_pid())
            return await shell.closed()


def sleeping(mark: int) -> list[int]:
    """Processes of this machine that sleep so many seconds; workspaces are among them."""
    wanted = f"sleep\0{mark}\0".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes() == wanted:
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


async def kill_proxy(replica: Replica) -> None:
    os.kill(proxy_of(replica), signal.SIGKILL)


def proxy_of(replica: Replica) -> int:
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(entry.read_bytes().rpartition(b")")[2].split()[1])
            command = (entry.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == replica.pid and b"codehub.server.proxy.process" in command:
            return int(entry.parent.name)
    raise AssertionError("it has no proxy")


async def kill_replica(replica: Replica) -> None:
    await replica.kill()


def leases(environment: ChaosEnvironment, workspace_id: str) -> list[float]:
    """When each lease ends, in seconds since the epoch."""
    with environment.redis.admin as redis:
        return [score / 1000 for _, score in redis.zrange(f"ws_conn:{workspace_id}", 0, -1, withscores=True)]


async def test_people_inside_are_told_and_leave_nothing() -> None:
    require_inside()
    async with chaos_environment() as environment, client(environment) as caller:
        north, south = environment.replicas
        body = {"name": NAME, "image_ref": environment.setup.image, "start": True}
        made = (await caller.post(f"{north.url}/api/v1/workspaces", json=body)).json()
        path = f"/api/v1/workspaces/{made['id']}"

        async def runs() -> bool:
            return bool((await caller.get(south.url + path)).json()["status"] == "running")

        await until(runs, seconds=120, what="the workspace to run")
        (environment.setup.home(made["id"]) / "paper").write_bytes(b"old")
        detached_mark = 10_000_000 + os.getpid()
        started = await caller.post(
            f"{north.url}{path}/processes", json={"argv": ["sleep", str(detached_mark)]}
        )
        assert started.status_code == 201, started.text
        shell = SshShell(environment.directory / "shell")
        shell.directory.mkdir()
        await shell.sign_in(north.url)
        pids = set()
        strikes: tuple[Callable[[Replica], Awaitable[None]], ...] = (kill_proxy, kill_replica)
        for number, strike in enumerate(strikes, 1):
            await north.until_ready()
            people = People(environment, north, made["id"], shell, detached_mark + number * 10_000_000)
            await people.enter()
            pids.add(await people.shell_pid)
            struck_at = time.time()
            await strike(north)
            await people.told()
            await people.nothing_is_left()
            # Nobody renews them: at the latest they are gone when a lease is over.
            assert all(each <= struck_at + LEASE_SECONDS + 5 for each in leases(environment, made["id"]))
        listed = (await caller.get(f"{south.url}{path}/processes")).json()["items"]
        assert [(each["id"], each["ended_at"]) for each in listed] == [(started.json()["id"], None)]
        headers = {"Authorization": f"Bearer {environment.token}"}
        async with terminal(south.url, made["id"], headers, client="page", resume="true") as again:
            pids.add(await again.shell_pid())
        assert len(pids) == 1, "the same shell all the time"
        await caller.post(f"{south.url}{path}/stop")

        async def stopped() -> bool:
            return bool((await caller.get(south.url + path)).json()["status"] == "standby")

        await until(stopped, seconds=120, what="the workspace to stop")
        assert sleeping(detached_mark) == []
