"""Everything a round runs on: PostgreSQL, Redis, an S3 store, two replicas, and a person's access to them.

All of it is real and of this round's own. Replicas reach the servers through breakable links; what the round
itself looks at (rows, files, processes, objects) it looks at directly, never through a link.
"""

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx

from tests.chaos.replica import Replica
from tests.support import postgres
from tests.support.broken_link import BrokenLink, broken_link
from tests.support.faulty_http import FaultyProxy, faulty_proxy
from tests.support.local_bench import server_command
from tests.support.object_stores import ACCESS_KEY, SECRET_KEY, rclone_server
from tests.support.people import ADMIN_PASSWORD, QUICK, Person
from tests.support.postgres import PostgresServer
from tests.support.redis import RedisServer
from tests.support.waiting import until

IMAGE = "tiny"
LEADS = "coordinator:wc"
NO_LIMIT = "100000"
SETTINGS = {
    **QUICK,
    "LOCAL_IMAGES": json.dumps({IMAGE: server_command()}),
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
class Estate:
    directory: Path
    postgres: PostgresServer
    database: str
    redis: RedisServer
    store: FaultyProxy
    bucket: Path
    replicas: list[Replica] = field(default_factory=list)
    token: str = ""

    @property
    def data_dir(self) -> Path:
        return self.directory / "data"

    def home(self, workspace_id: str) -> Path:
        return self.data_dir / "volumes" / f"ws-{workspace_id}-home"

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
async def estate() -> AsyncIterator[Estate]:
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
        bucket = directory / "store" / "bucket"
        bucket.mkdir(parents=True)
        s3 = stack.enter_context(rclone_server(bucket.parent))
        store = stack.enter_context(faulty_proxy(s3.endpoint))
        made = Estate(directory, server, name, redis, store, bucket)
        stack.callback(_end_workspaces, made)
        for replica_name in ("north", "south"):
            replica = await _replica(made, replica_name, stack=stack)
            made.replicas.append(replica)
            stack.push_async_callback(replica.end)
            await replica.start()
        await asyncio.gather(*(each.until_ready() for each in made.replicas))
        made.token = await _token(made.replicas[0].url)
        yield made


async def _replica(made: Estate, name: str, *, stack: AsyncExitStack) -> Replica:
    database: BrokenLink = await stack.enter_async_context(
        broken_link(made.postgres.directory / ".s.PGSQL.5432")
    )
    redis = await stack.enter_async_context(broken_link(made.directory / "redis.sock"))
    return Replica(
        name,
        port=postgres.free_port(),
        database=database,
        redis=redis,
        log=made.directory / f"{name}.log",
        **SETTINGS,
        DATABASE_URL=f"postgresql://postgres@127.0.0.1:{database.port}/{made.database}",
        REDIS_URL=f"redis://127.0.0.1:{redis.port}/0",
        CODEHUB_DATA_DIR=str(made.data_dir),
        ARCHIVE_URL="s3://bucket/archives",
        AWS_ENDPOINT_URL=made.store.url,
        AWS_ACCESS_KEY_ID=ACCESS_KEY,
        AWS_SECRET_ACCESS_KEY=SECRET_KEY,
        AWS_REGION="us-east-1",
    )


async def _token(url: str) -> str:
    async with Person.sign_in(url, "admin", ADMIN_PASSWORD) as admin:
        return str((await admin.api("POST", "/tokens", json={"name": "chaos"}))["token"])


def _end_workspaces(made: Estate) -> None:
    """They outlive their replicas by design, and this round not."""
    for pid in servers_of(made.data_dir):
        try:
            os.kill(pid, 9)
        except ProcessLookupError:
            continue


def servers_of(data_dir: Path) -> dict[int, str]:
    """Living workspace servers of this data directory: pid → workspace id. The sandbox around one is none."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if b"bwrap" in command[0] or not any(part.endswith(b"tiny_server.py") for part in command):
                continue
            variables = dict(
                each.partition(b"=")[::2] for each in (entry / "environ").read_bytes().split(b"\0")
            )
        except OSError:
            continue
        if variables.get(b"HOME", b"").startswith(bytes(data_dir)):
            found[int(entry.name)] = variables[b"CODEHUB_WORKSPACE_ID"].decode()
    return found


def client(made: Estate, *, timeout: float = 20.0) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        headers={"Authorization": f"Bearer {made.token}"}, timeout=timeout, trust_env=False
    )
