"""kill -9 of the leader while twenty workspaces start: is one forgotten, or started twice?

Two real ``codehub serve`` share a database, a Redis and a machine. The intents go to the one that does not
lead; as soon as the first processes are under way, the leader is killed. Then: when did the other one take
the lock, when did it act, when was everything up, and how many processes does each workspace have?
"""

# ruff: noqa: ASYNC110, ASYNC240 - what is watched is outside this process: there is no event to wait for
import asyncio
import contextlib
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx
from tests.support.ports import free_ports
from tests.support.waiting import until

from bench.codehub_side import MANY, process_variables, sign_in
from bench.processes import command_line, running
from bench.runner import Bar, Report, take_turns
from codehub.server.processes import embedded
from codehub.server.settings.tree import load_settings

AT_ONCE = 20
LEADS = "coordinator:wc"


async def kill_nine(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "takeover",
        f"kill -9 of the leader while {AT_ONCE} workspaces start",
        bars=[
            Bar("forgotten", "codehub", at_most=0, every_round=True),
            Bar("started twice", "codehub", at_most=0, every_round=True),
            Bar("seconds until the lock is taken", "codehub", at_most=1, every_round=True),
            Bar("seconds until the second replica acts", "codehub", at_most=1, every_round=True),
        ],
    )
    number = iter(range(1000))
    await take_turns(report, {"codehub": lambda: _round(directory / f"round-{next(number)}")}, rounds=rounds)
    return report


async def _round(directory: Path) -> dict[str, float]:
    directory.mkdir()
    settings = load_settings({"CODEHUB_DATA_DIR": str(directory / "servers")})
    async with embedded.endpoints(settings) as where, contextlib.AsyncExitStack() as stack:
        # Entered first, so it runs when both replicas have ended: a living one would start them again.
        stack.callback(_end_servers, directory)
        shared = {
            "DATABASE_URL": where.database_url,
            "REDIS_URL": where.redis_url,
            "COORDINATOR_START_JITTER": "0",
        }
        database = await asyncpg.connect(where.database_url)
        stack.push_async_callback(database.close)
        leader, _ = await stack.enter_async_context(_replica(directory, "leader", shared))
        await until(lambda: _leads(database, "leader"), seconds=90, every=0.005)
        _, client = await stack.enter_async_context(_replica(directory, "heir", shared))
        await until(lambda: _queues(database), seconds=90, every=0.005)
        return await _kill_and_watch(directory, leader, client, database)


async def _kill_and_watch(
    directory: Path, leader: asyncio.subprocess.Process, client: httpx.AsyncClient, database: Any
) -> dict[str, float]:
    async def create(number: int) -> None:
        body = {"name": f"w{number}", "image_ref": "trivial", "start": True}
        (await client.post("/api/v1/workspaces", json=body)).raise_for_status()

    creating = asyncio.gather(*(create(number) for number in range(AT_ONCE)))
    await until(lambda: _count(database, "operation = 'STARTING'"), seconds=90, every=0.005)
    killed_at = time.time()
    leader.kill()
    await creating
    await until(lambda: _leads(database, "heir"), seconds=90, every=0.005)
    taken_at: datetime = await database.fetchval(
        "SELECT acquired_at FROM system_locks WHERE lock_name = $1", LEADS
    )
    acted_at = await _first_act(database, taken_at)
    deadline = time.monotonic() + 60
    while await _count(database, "status = 'running'") < AT_ONCE and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    up = await _count(database, "status = 'running'")
    ended_at = time.time()
    per_workspace = Counter(_servers(directory).values())
    if len(per_workspace) < up:  # a counter that sees nothing would call anything a success
        raise RuntimeError(f"{up} workspaces run, but servers of only {len(per_workspace)} were found")
    return {
        "forgotten": AT_ONCE - up,
        "started twice": sum(1 for count in per_workspace.values() if count > 1),
        "seconds until the lock is taken": taken_at.timestamp() - killed_at,
        "seconds until the second replica acts": acted_at.timestamp() - killed_at,
        "seconds until all run": ended_at - killed_at,
    }


async def _first_act(database: Any, since: datetime) -> datetime:
    """The first change the Reconciler wrote in the new term."""
    found: datetime | None = None
    while found is None:
        found = await database.fetchval(
            "SELECT min(at) FROM workspace_events WHERE actor = 'reconciler' AND at >= $1",
            since,
        )
        await asyncio.sleep(0.005)
    return found


@contextlib.asynccontextmanager
async def _replica(
    directory: Path, name: str, shared: dict[str, str]
) -> AsyncIterator[tuple[asyncio.subprocess.Process, httpx.AsyncClient]]:
    (port,) = free_ports(1)
    env = process_variables(directory / "data", bind=f"127.0.0.1:{port}", COORDINATOR_NODE_ID=name, **shared)
    command = (sys.executable, "-m", "codehub.cli.main", "serve")
    async with (
        running(command, log=directory / f"{name}.log", env=env) as process,
        httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", timeout=60, trust_env=False, limits=MANY
        ) as client,
    ):
        await until(lambda: _is_ready(client), seconds=90, every=0.005)
        await sign_in(client)
        yield process, client


async def _is_ready(client: httpx.AsyncClient) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return (await client.get("/health/ready")).status_code == httpx.codes.OK
    return False


async def _leads(database: Any, node: str) -> bool:
    holder = await database.fetchval("SELECT holder_id FROM system_locks WHERE lock_name = $1", LEADS)
    return bool(holder == node)


async def _queues(database: Any) -> bool:
    waiting = await database.fetchval(
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    )
    return int(waiting) >= 5


async def _count(database: Any, condition: str) -> int:
    return int(await database.fetchval(f"SELECT count(*) FROM workspaces WHERE {condition}"))


def _end_servers(directory: Path) -> None:
    for pid in _servers(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _servers(directory: Path) -> dict[int, str]:
    """Processes that serve this run's workspaces: pid → the workspace's mark in its environment."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        line = command_line(int(entry.name))
        if "bwrap" in line.split(" ", 1)[0] or "trivial_server.pl" not in line:
            continue  # the sandbox around a server is not a second server
        with contextlib.suppress(OSError):
            variables = (entry / "environ").read_bytes().decode(errors="replace").split("\0")
            named = dict(each.partition("=")[::2] for each in variables)
            if named.get("HOME", "").startswith(str(directory)):
                found[int(entry.name)] = named["CODEHUB_WORKSPACE_ID"]
    return found
