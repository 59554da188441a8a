"""What waiting costs: CPU and memory with a thousand workspaces known and fifty of them running.

Both sides wait at the same time, so the machine's mood is the same for both. The homes at rest are made in
the database and on disk directly; the fifty are started as people start them. A second CodeHub with ten
times as many workspaces tells what knowing more costs.
"""

# ruff: noqa: ASYNC110 - what is waited for is in another process
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import asyncpg

from bench.codehub_side import CodeHub, codehub
from bench.jupyterhub_side import JupyterHub, jupyterhub
from bench.processes import cpu_seconds, memory_mib
from bench.runner import Bar, Report

KNOWN = 1000
MANY = 10_000
RUNNING = 50
SETTLE_SECONDS = 15.0
SECONDS = 90.0
"""Longer than any period but the archive GC's hour; each side then used some dozens of 10 ms clock ticks."""

AT_REST = """
INSERT INTO workspaces (id, owner_id, name, image_ref, desired_state, observed_status, home_ctx,
                        archive_ttl_seconds, observed_at)
SELECT id, (SELECT id FROM users LIMIT 1), 'rest-' || id, 'trivial', 'STANDBY', 'STANDBY',
       '{"volume": true}', 0, now()
  FROM unnest($1::uuid[]) AS id
"""
ARE_RUNNING = "SELECT count(*) FROM workspaces WHERE status = 'running'"


async def idle(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "idle",
        f"Idle, {RUNNING} running (CPU in % of one processor; memory without PostgreSQL)",
        bars=[
            Bar("CPU %", "codehub 1000", "jupyterhub 1000", at_most=1),
            Bar("CPU %", "codehub 10000", "jupyterhub 1000", at_most=3),
            Bar("memory MiB", "codehub 1000", "jupyterhub 1000", at_most=1.2),
        ],
    )
    (directory / "many").mkdir()
    async with (
        _codehub(directory, known=KNOWN) as ours,
        _codehub(directory / "many", known=MANY) as many,
        _jupyterhub(directory) as theirs,
    ):
        sides: dict[str, CodeHub | JupyterHub] = {
            "codehub 1000": ours,
            "codehub 10000": many,
            "jupyterhub 1000": theirs,
        }
        await asyncio.sleep(SETTLE_SECONDS)
        for number in range(rounds):
            pids = {name: side.pids() for name, side in sides.items()}
            before = {name: cpu_seconds(pids[name]) for name in sides}
            began = time.perf_counter()
            await asyncio.sleep(SECONDS)
            took = time.perf_counter() - began
            for name, side in sides.items():
                without_database = side.pids_without_database()
                report.add(
                    name,
                    {
                        "CPU %": (cpu_seconds(pids[name]) - before[name]) / took * 100,
                        "memory MiB": memory_mib(without_database),
                        "memory with PostgreSQL MiB": memory_mib(side.pids()),
                    },
                )
            print(f"  round {number + 1}/{rounds}", flush=True)  # noqa: T201
    return report


@contextlib.asynccontextmanager
async def _codehub(directory: Path, *, known: int) -> AsyncIterator[CodeHub]:
    async with codehub(directory) as hub:
        ids = [uuid4() for _ in range(known - RUNNING)]
        await asyncio.to_thread(_make_homes, hub.data_dir, ids)
        connection = await asyncpg.connect(hub.database_url)
        try:
            await connection.execute(AT_REST, ids)
            for number in range(RUNNING):
                await hub.create(f"run-{number}")
            async with asyncio.timeout(120):
                while await connection.fetchval(ARE_RUNNING) < RUNNING:
                    await asyncio.sleep(0.2)
        finally:
            await connection.close()
        yield hub


def _make_homes(data_dir: Path, ids: list[UUID]) -> None:
    """Before their rows: a row whose home is missing is an error, and rightly so."""
    for workspace_id in ids:
        (data_dir / "volumes" / f"ws-{workspace_id}-home").mkdir(exist_ok=True)


@contextlib.asynccontextmanager
async def _jupyterhub(directory: Path) -> AsyncIterator[JupyterHub]:
    async with jupyterhub(directory) as hub:
        await hub.add_users([f"idle-{number}" for number in range(KNOWN)])
        for number in range(RUNNING):
            await hub.start(f"idle-{number}")
        yield hub
