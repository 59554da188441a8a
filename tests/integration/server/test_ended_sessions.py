"""A database that ends every session, again and again, is a line a minute and a number, not a flood."""

import asyncio
import json
import re
from pathlib import Path

import asyncpg
import httpx

from codehub.store.db.connections import asyncpg_dsn
from tests.support.instance import codehub_up
from tests.support.waiting import until

TERMINATE = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
ROUNDS = 60


async def test_ended_sessions_leave_no_tracebacks(database_url: str, redis_url: str, tmp_path: Path) -> None:
    async with codehub_up(
        tmp_path / "data",
        DATABASE_URL=database_url,
        REDIS_URL=redis_url,
        COORDINATOR_RETRY_INTERVAL="0.2",
        COORDINATOR_START_JITTER="0",
        LOG_FORMAT="json",
        CODEHUB_ADMIN_PASSWORD="a-password-of-mine",
    ) as instance:
        admin = await asyncpg.connect(asyncpg_dsn(database_url))
        async with httpx.AsyncClient(base_url=instance.url, trust_env=False, timeout=30) as client:
            signed_in = {"username": "admin", "password": "a-password-of-mine"}
            origin = {"Origin": instance.url}
            answer = await client.post("/api/v1/auth/login", json=signed_in, headers=origin)
            assert answer.status_code == 200, answer.text
            ended = 0
            for _ in range(ROUNDS):
                asked = [client.get("/api/v1/workspaces") for _ in range(5)]
                ended += await admin.fetchval(TERMINATE)
                await asyncio.gather(*asked, return_exceptions=True)

            async def well_again() -> bool:
                return (await client.get("/api/v1/workspaces")).status_code == 200

            await until(well_again, seconds=60, what="the instance to be well again")
            metrics = (await client.get("/metrics")).text
        await admin.close()
        log = instance.errors
    assert ended > ROUNDS
    assert "Traceback" not in log, log[log.index("Traceback") - 500 :][:4000]
    assert "never retrieved" not in log
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    loud = [line for line in lines if line["level"] in ("warning", "error", "critical")]
    # One for each process, and one more if it took longer than a minute.
    assert len(loud) <= 4, "\n".join(map(str, loud[:20]))
    counted = re.findall(r"^codehub_database_failures_total\S* (\S+)$", metrics, re.MULTILINE)
    assert sum(map(float, counted)) > 0
