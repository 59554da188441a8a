"""Does an open dashboard know the truth within two seconds after something died under it?

A reader follows ``/api/v1/events`` the way the dashboard does: it merges what it is told and, when its
connection breaks, comes back with the dashboard's delays. Then one part is broken. A workspace is changed
while the part is away and again the moment it is back (as soon as the API takes the change), and the clock
runs from the later of the two, *the part is back* and *the change is committed*, until what the reader knows
equals ``GET /workspaces``.

For a Redis that never comes back there is no such moment: the clock runs from the commit.
"""

# ruff: noqa: ASYNC240 - what is watched is outside this process: there is no event to wait for
import asyncio
import contextlib
import json
import os
import random
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
from tests.support.ports import free_ports
from tests.support.waiting import until

from bench.codehub_side import process_variables, sign_in
from bench.processes import running
from bench.runner import Bar, Report, take_turns
from codehub.server.data_dir import DataDir
from codehub.server.processes.embedded import postgres, processes, redis
from codehub.server.processes.supervisor import Supervisor

METRIC = "seconds until the reader equals the database"
NEVER_SECONDS = 30.0
AWAY_SECONDS = (0.5, 4.0)
"""A part that is started by us stays away this long: back-offs have grown by then, differently each time."""


async def after_faults(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "events",
        "A reader of live events after something was restarted under it",
        bars=[Bar(METRIC, fault, at_most=2, every_round=True) for fault in FAULTS],
    )
    async with _installation(directory / "hub") as hub:

        def measure(fault: str) -> Callable[[], Awaitable[dict[str, float]]]:
            return lambda: _measure(hub, FAULTS[fault])

        await take_turns(report, {fault: measure(fault) for fault in FAULTS}, rounds=rounds)
    return report


@dataclass
class Reader:
    """What an open dashboard knows: workspace → version. ``web/src/live`` in short."""

    url: str
    cookies: dict[str, str]
    known: dict[str, int] = field(default_factory=dict)
    failures: int = 0

    async def run(self) -> None:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                async with httpx.AsyncClient(cookies=self.cookies, trust_env=False, timeout=None) as client:
                    # The dashboard asks after each failure whether it is still signed in, before it waits.
                    if self.failures:
                        await client.get(f"{self.url}/api/v1/auth/session")
                    await asyncio.sleep(self._delay())
                    await self._listen(client)
            self.failures += 1

    def _delay(self) -> float:
        """``retryDelay`` of the dashboard's connection."""
        if not self.failures:
            return 0.0
        longest = min(LONGEST_DELAY_SECONDS, FIRST_DELAY_SECONDS * 2.0 ** (self.failures - 1))
        return longest * random.uniform(0.5, 1.0)

    async def _listen(self, client: httpx.AsyncClient) -> None:
        name = ""
        async with client.stream("GET", f"{self.url}/api/v1/events") as stream:
            if stream.status_code != httpx.codes.OK:
                return
            async for line in stream.aiter_lines():
                if line.startswith("event:"):
                    name = line[6:].strip()
                elif line.startswith("data:"):
                    self.failures = 0
                    self._take(name, json.loads(line[5:]))

    def _take(self, name: str, data: Any) -> None:
        if name == "snapshot":
            self.known = {each: version for each, version in self.known.items() if each in data["ids"]}
        elif name == "state_changed":
            self.known[data["id"]] = data["version"]
        elif name == "deleted":
            self.known.pop(data["id"], None)


FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 1.5


@dataclass
class Installation:
    """Two replicas on a PostgreSQL and a Redis of their own, each of which can be killed."""

    directory: Path
    shared: dict[str, str]
    memory: Supervisor
    ports: dict[str, int]
    stacks: dict[str, contextlib.AsyncExitStack] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    has_redis: bool = True

    @property
    def servers(self) -> DataDir:
        return DataDir(self.directory / "servers")

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"

    async def start(self, name: str) -> None:
        bind = f"127.0.0.1:{self.ports[name]}"
        env = process_variables(self.directory / "data", bind=bind, COORDINATOR_NODE_ID=name, **self.shared)
        stack = self.stacks[name] = contextlib.AsyncExitStack()
        command = (sys.executable, "-m", "codehub.cli.main", "serve")
        process = await stack.enter_async_context(
            running(command, log=self.directory / f"{name}.log", env=env)
        )
        self.pids[name] = process.pid
        async with httpx.AsyncClient(trust_env=False, timeout=5) as client:

            async def is_ready() -> bool:
                with contextlib.suppress(httpx.HTTPError):
                    answer = await client.get(f"{self.url(name)}/health/ready")
                    return answer.status_code == httpx.codes.OK
                return False

            await until(is_ready, seconds=90, every=0.005)

    async def kill(self, name: str) -> None:
        os.kill(self.pids[name], signal.SIGKILL)
        await self.stacks.pop(name).aclose()

    async def mend(self) -> tuple[str, str]:
        """Everything runs again. Gives who leads the event listener, and who does not."""
        if not self.has_redis:
            await self.memory.start(redis.child(self.servers))
            self.has_redis = True
        for name in self.ports:
            if name not in self.stacks:
                await self.start(name)
        leader = await self.until_led(*self.ports)
        (other,) = self.ports.keys() - {leader}
        return leader, other

    async def until_led(self, *by: str) -> str:
        """Until one of these leads the event listener."""
        found = ""

        async def led() -> bool:
            nonlocal found
            async with _connected(self) as database:
                found = await database.fetchval(
                    "SELECT holder_id FROM system_locks WHERE lock_name = 'coordinator:events' AND EXISTS ("
                    " SELECT FROM pg_stat_activity a JOIN pg_locks l USING (pid) WHERE l.granted"
                    " AND l.locktype = 'advisory' AND a.application_name = 'codehub-events')"
                )
            return found in by

        await until(led, seconds=90, every=0.005)
        return found


async def _kill_api(hub: Installation, leader: str, other: str) -> None:
    """The only replica, event listener and all, killed and started again at the same port."""
    await hub.kill(leader)
    await hub.kill(other)
    await asyncio.sleep(random.uniform(*AWAY_SECONDS))
    await hub.start(other)


async def _kill_redis(hub: Installation, *_: str) -> None:
    (pid,) = processes.processes_in(hub.servers.redis, program=redis.PROGRAMS)
    os.kill(pid, signal.SIGKILL)
    await _until_gone(pid)
    await until(redis.child(hub.servers).is_ready, seconds=90, every=0.005)  # the supervisor brings it back


async def _stop_redis(hub: Installation, *_: str) -> None:
    hub.has_redis = False
    await hub.memory.stop()


async def _kill_leader(hub: Installation, leader: str, _: str) -> None:
    await hub.kill(leader)


async def _end_listener_session(hub: Installation, leader: str, other: str) -> None:
    """With one replica there is nobody to take over: it must come back by itself."""
    await hub.kill(leader)
    await hub.until_led(other)
    async with _connected(hub) as database:
        await database.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'codehub-events'"
        )


async def _restart_postgres(hub: Installation, *_: str) -> None:
    pid = int((hub.servers.postgres / "postmaster.pid").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    await _until_gone(pid)
    await until(lambda: _answers(hub), seconds=90, every=0.005)


Fault = Callable[[Installation, str, str], Awaitable[None]]

FAULTS: dict[str, Fault] = {
    "API killed and restarted": _kill_api,
    "Redis killed and restarted": _kill_redis,
    "Redis gone for good": _stop_redis,
    "event listener's replica killed": _kill_leader,
    "event listener's session ended": _end_listener_session,
    "PostgreSQL killed and restarted": _restart_postgres,
}


async def _measure(hub: Installation, fault: Fault) -> dict[str, float]:
    leader, other = await hub.mend()
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=hub.url(other), trust_env=False, timeout=10)
        )
        await sign_in(client)
        body = {"name": f"w{time.time()}", "image_ref": "trivial"}
        made = await client.post("/api/v1/workspaces", json=body)
        made.raise_for_status()
        workspace_id = made.json()["id"]
        reader = Reader(hub.url(other), dict(client.cookies))
        stack.callback(asyncio.create_task(reader.run()).cancel)
        await until(lambda: _equal(reader, client), seconds=90, every=0.005)
        writing = asyncio.create_task(_keep_writing(client, workspace_id))
        stack.callback(writing.cancel)
        await fault(hub, leader, other)
        back_at = time.monotonic()
        writing.cancel()
        committed_at = await _write(client, workspace_id, f"after {back_at}")
        since = max(back_at, committed_at)
        with contextlib.suppress(AssertionError):  # then the figure itself says so
            await until(lambda: _equal(reader, client), every=0.02, seconds=NEVER_SECONDS)
        return {METRIC: time.monotonic() - since}


async def _write(client: httpx.AsyncClient, workspace_id: str, memo: str) -> float:
    """Change it, again and again until it is taken; gives the moment of the commit."""
    while True:
        with contextlib.suppress(httpx.HTTPError):
            answer = await client.patch(f"/api/v1/workspaces/{workspace_id}", json={"memo": memo})
            if answer.status_code == httpx.codes.OK:
                return time.monotonic()
        await asyncio.sleep(0.01)


async def _keep_writing(client: httpx.AsyncClient, workspace_id: str) -> None:
    """Changes all through the fault: some of them nobody is told of."""
    for number in range(1_000_000):
        await _write(client, workspace_id, f"during {number}")
        await asyncio.sleep(0.05)


async def _equal(reader: Reader, client: httpx.AsyncClient) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        answer = await client.get("/api/v1/workspaces?limit=200")
        if answer.status_code == httpx.codes.OK:
            return {each["id"]: each["version"] for each in answer.json()["items"]} == reader.known
    return False


@contextlib.asynccontextmanager
async def _installation(directory: Path) -> AsyncIterator[Installation]:
    directory.mkdir()
    directory.chmod(0o755)
    servers = DataDir(directory / "servers")
    database, memory = Supervisor(), Supervisor()
    sockets = contextlib.ExitStack()
    sockets.enter_context(servers.sockets_in_use())
    try:
        await database.start(await postgres.child(servers))
        await postgres.ensure_database(servers)
        await memory.start(redis.child(servers))
        shared = {"DATABASE_URL": postgres.url(servers), "REDIS_URL": redis.url(servers)}
        ports = dict(zip(("one", "two"), free_ports(2), strict=True))
        hub = Installation(directory, shared, memory, ports)
        try:
            yield hub
        finally:
            for replica in hub.stacks.values():
                await replica.aclose()
    finally:
        await memory.stop()
        await database.stop()
        sockets.close()


@contextlib.asynccontextmanager
async def _connected(hub: Installation) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(hub.shared["DATABASE_URL"])
    try:
        yield connection
    finally:
        await connection.close()


async def _answers(hub: Installation) -> bool:
    with contextlib.suppress(OSError, asyncpg.PostgresError, TimeoutError):
        async with _connected(hub):
            return True
    return False


async def _until_gone(pid: int) -> None:
    async def gone() -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return False

    await until(gone, seconds=90, every=0.005)
