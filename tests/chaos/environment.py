"""Everything a round runs on: PostgreSQL, Redis, a runtime setup, two replicas, and a person's access to them.

All of it is real and of this round's own. Replicas reach the servers through breakable links; what the round
itself looks at (rows, files, processes, objects) it looks at directly, never through a link.
"""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx

from codehub.server.processes.embedded import redis_access
from tests.chaos.replica import Replica
from tests.chaos.runtime_setups import RuntimeSetup, local_setup
from tests.support import postgres
from tests.support.broken_link import BrokenLink, broken_link
from tests.support.people import ADMIN_PASSWORD, QUICK, Person
from tests.support.ports import free_port
from tests.support.postgres import PostgresServer
from tests.support.redis import PASSWORD, RedisServer
from tests.support.waiting import until

LEADS = "coordinator:wc"
NO_LIMIT = "100000"
SETTINGS = {
    **QUICK,
    "COORDINATOR_VERIFY_INTERVAL": "2",
    "RECONCILER_RETRY_BACKOFF": "0.5",
    "GC_INTERVAL": "1",
    "GC_DELAY": "1",
    # Nobody but the round's own people puts a workspace to sleep, so that everybody knows what is wanted.
    "TTL_STANDBY_SECONDS": "0",
    "TTL_ARCHIVE_SECONDS": "0",
    "LIMITS_MAX_RUNNING_PER_USER": NO_LIMIT,
    "LIMITS_MAX_RUNNING_GLOBAL": NO_LIMIT,
    "LOG_FORMAT": "json",
    "LOG_LEVEL": "INFO",
}


@dataclass
class ChaosEnvironment:
    directory: Path
    postgres: PostgresServer
    database: str
    redis: RedisServer
    setup: RuntimeSetup
    replicas: list[Replica] = field(default_factory=list)
    token: str = ""

    @asynccontextmanager
    async def connection(self) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
        connection = await asyncpg.connect(self.postgres.url(self.database))
        try:
            yield connection
        finally:
            await connection.close()

    async def rows(self, statement: str, *arguments: Any) -> list[asyncpg.Record]:
        async with self.connection() as connection:
            return list(await connection.fetch(statement, *arguments))

    async def value(self, statement: str, *arguments: Any) -> Any:
        async with self.connection() as connection:
            return await connection.fetchval(statement, *arguments)

    async def leader(self) -> Replica:
        """Who reconciles, by its own word in the database and with the lock to show for it."""

        async def found() -> Replica | None:
            holder = await self.value("SELECT holder_id FROM system_locks WHERE lock_name = $1", LEADS)
            return next((each for each in self.replicas if each.name == holder and each.alive), None)

        leader = await until(found, seconds=120, what="somebody to lead")
        assert leader is not None
        return leader

    def strays(self) -> list[str]:
        """Processes of CodeHub itself that no living replica answers for: proxies of a killed one, jobs."""
        living = {each.pid for each in self.replicas if each.alive}
        mark = f"CODEHUB_DATA_DIR={self.directory / 'data'}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if not entry.name.isdecimal() or int(entry.name) in living:
                    continue
                parent = int((entry / "stat").read_bytes().rpartition(b")")[2].split()[1])
                if parent not in living and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
        return found

    async def until_both_stand(self) -> None:
        """Two replicas that answer, the one that does not lead waiting in the server's queue for the lock."""
        await asyncio.gather(*(each.until_ready() for each in self.replicas))

        async def queued() -> bool:
            waiting = await self.value(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            )
            return bool(waiting)

        await until(queued, seconds=60, what="the second replica to queue")


@asynccontextmanager
async def chaos_environment(
    setup: Callable[[Path], AbstractContextManager[RuntimeSetup]] = local_setup,
) -> AsyncIterator[ChaosEnvironment]:
    """Two replicas, ready and signed in. Everything is ended and removed afterwards."""
    # Short: Unix sockets live in it.
    directory = Path(tempfile.mkdtemp(prefix="chaos-", dir="/tmp"))
    async with AsyncExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        server = stack.enter_context(postgres.run_server())
        name = f"chaos_{uuid4().hex}"
        async with postgres.admin_connection(server) as connection:
            await connection.execute(f"CREATE DATABASE {name}")
        redis = RedisServer(directory)
        redis.start()
        stack.callback(redis.kill)
        environment = ChaosEnvironment(directory, server, name, redis, stack.enter_context(setup(directory)))
        for replica_name in ("north", "south"):
            replica = await _replica(environment, replica_name, stack=stack)
            environment.replicas.append(replica)
            stack.push_async_callback(replica.end)
            await replica.start()
        await asyncio.gather(*(each.until_ready() for each in environment.replicas))
        environment.token = await _token(environment.replicas[0].url)
        yield environment


async def _replica(environment: ChaosEnvironment, name: str, *, stack: AsyncExitStack) -> Replica:
    database: BrokenLink = await stack.enter_async_context(
        broken_link(environment.postgres.directory / ".s.PGSQL.5432")
    )
    redis = await stack.enter_async_context(broken_link(environment.directory / "redis.sock"))
    return Replica(
        name,
        port=free_port(),
        database=database,
        redis=redis,
        log=environment.directory / f"{name}.log",
        **SETTINGS,
        **environment.setup.settings(),
        DATABASE_URL=f"postgresql://postgres@127.0.0.1:{database.port}/{environment.database}",
        REDIS_URL=f"redis://{redis_access.USER}:{PASSWORD}@127.0.0.1:{redis.port}/0",
        CODEHUB_DATA_DIR=str(environment.directory / "data"),
    )


async def _token(url: str) -> str:
    async with Person.sign_in(url, "admin", ADMIN_PASSWORD) as admin:
        return str((await admin.api("POST", "/tokens", json={"name": "chaos"}))["token"])


def client(environment: ChaosEnvironment, *, timeout: float = 20.0) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers={"Authorization": f"Bearer {environment.token}"}, timeout=timeout, trust_env=False
    )
