"""What a change costs when many workspaces are known: 10 000 and 100 000, of which one in a hundred changes.

Real coordinators on a real PostgreSQL and Redis; the runtime is the tests' in-memory one, so that what is
counted is the control plane alone. Nearly all workspaces are archived. Some are then asked RUNNING at once,
and the ticks until they all run are added up: their time, and the rows PostgreSQL read for them, the intent
and the idle looks until a session hands in its counts included. Whether they run is asked of the coordinators
and not of the table whose reads are counted.
"""

# ruff: noqa: ASYNC240 - what is watched is outside this process: there is no event to wait for
import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
from prometheus_client import REGISTRY
from tests.support.control import ControlEnvironment
from tests.support.fake_runtime import FakeEngine, FakeRuntime
from tests.support.waiting import until

from bench.runner import Bar, Report, take_turns
from codehub.server.processes import embedded
from codehub.server.settings.tree import load_settings
from codehub.store import migrate
from codehub.store.db.connections import create_pool, session_factory

CASES = {
    "10 000, 100 change": (10_000, 100),
    "100 000, 100 change": (100_000, 100),
    "100 000, 1000 change": (100_000, 1000),
}
SETTINGS = {
    "COORDINATOR_START_JITTER": "0",
    "RECONCILER_MAX_CONCURRENT": "200",
    "LIMITS_MAX_RUNNING_PER_USER": "100000",
    "LIMITS_MAX_RUNNING_GLOBAL": "100000",
}
FILL = """
INSERT INTO workspaces (id, owner_id, name, image_ref, desired_state, observed_status, archive_key, home_ctx,
                        archive_ttl_seconds, observed_at)
SELECT gen_random_uuid(), $1, 'ws-' || i, 'fake',
       CASE WHEN i <= $3 THEN 'STANDBY' ELSE 'PENDING' END::desired_state,
       CASE WHEN i <= $3 THEN 'STANDBY' ELSE 'PENDING' END::observed_status,
       CASE WHEN i > $3 THEN 'key-' || i END,
       CASE WHEN i <= $3 THEN '{"volume": true}' END::jsonb, 0, clock_timestamp()
  FROM generate_series(1, $2) AS i
"""
SET_RUNNING = "UPDATE workspaces SET desired_state = 'RUNNING' WHERE id = ANY($1)"
RUN = "SELECT count(*) FROM workspaces WHERE id = ANY($1) AND status = 'running'"
READ = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'workspaces'"
HANDED_IN_SECONDS = 12.0
"""An idle session of PostgreSQL may hand in what it counted only ten seconds after its last transaction."""


async def scale(directory: Path, *, rounds: int) -> Report:
    few, more, most = CASES
    report = Report(
        "reconcile-scale",
        "Starting some of many workspaces (sums over all ticks until they run)",
        bars=[
            Bar("Reconciler tick ms in all", more, few, at_most=2),
            Bar("rows read for each change", more, few, at_most=2),
            Bar("rows read for each change", most, few, at_most=2),
        ],
    )
    number = iter(range(1000))
    sides = {
        name: (lambda case=case: _round(directory / f"round-{next(number)}", known=case[0], changing=case[1]))
        for name, case in CASES.items()
    }
    await take_turns(report, sides, rounds=rounds)
    return report


async def _round(directory: Path, *, known: int, changing: int) -> dict[str, float]:
    async with _environment(directory, known=known, changing=changing) as (environment, database):
        rows = await database.fetch("SELECT id FROM workspaces WHERE observed_status = 'STANDBY'")
        ids = [UUID(str(row["id"])) for row in rows]
        engine = FakeEngine(images=["fake"])
        for each in ids:
            engine.place(each).volume = {}
        async with environment.replica(
            settings=load_settings(SETTINGS), runtime=FakeRuntime(engine)
        ) as plane:
            loops = (plane.loops["wc"], plane.loops["observer"])
            await until(lambda: all(loop.status.ticks for loop in loops), seconds=60, every=0.02)
            await asyncio.sleep(HANDED_IN_SECONDS)  # what the first full look has read is no news
            ticks, ticking, read = _ticks(), _ticking_ms(), await database.fetchval(READ)
            began, started = time.perf_counter(), _started()
            await database.execute(SET_RUNNING, ids)
            await database.execute("SELECT pg_stat_force_next_flush()")
            await until(lambda: _started() - started == changing, seconds=60, every=0.02)
            took = time.perf_counter() - began
            ticks, ticking = _ticks() - ticks, _ticking_ms() - ticking
            await asyncio.sleep(HANDED_IN_SECONDS)
            read = await database.fetchval(READ) - read
            assert await database.fetchval(RUN, ids) == changing
    return {
        "seconds until all run": took,
        "Reconciler ticks": ticks,
        "Reconciler tick ms in all": ticking,
        "rows read for each change": read / changing,
    }


@contextlib.asynccontextmanager
async def _environment(
    directory: Path, *, known: int, changing: int
) -> AsyncIterator[tuple[ControlEnvironment, Any]]:
    directory.mkdir()
    async with embedded.endpoints(load_settings({"CODEHUB_DATA_DIR": str(directory / "servers")})) as where:
        await migrate.upgrade(where.database_url)
        pool = create_pool(where.database_url)
        environment = ControlEnvironment(
            where.database_url, where.redis_url, directory / "data", session_factory(pool)
        )
        await environment.prepare()
        database = await asyncpg.connect(where.database_url)
        try:
            await database.execute("ALTER TABLE workspaces DISABLE TRIGGER USER")
            await database.execute(FILL, environment.owner_id, known, changing)
            await database.execute("ALTER TABLE workspaces ENABLE TRIGGER USER")
            await database.execute("VACUUM ANALYZE workspaces")
            yield environment, database
        finally:
            await database.close()
            await pool.dispose()


def _ticks() -> float:
    return REGISTRY.get_sample_value("codehub_tick_duration_seconds_count", {"coordinator": "wc"}) or 0.0


def _ticking_ms() -> float:
    seconds = REGISTRY.get_sample_value("codehub_tick_duration_seconds_sum", {"coordinator": "wc"}) or 0.0
    return seconds * 1000


def _started() -> float:
    done = {"operation": "STARTING", "outcome": "done"}
    return REGISTRY.get_sample_value("codehub_operations_total", done) or 0.0
