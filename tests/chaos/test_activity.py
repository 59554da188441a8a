"""Who is in use stays awake and who is not falls asleep, whatever dies in between.

Real coordinators, real PostgreSQL and Redis, real workspaces, and the proxy in a process of its own that can
be killed. Its leases last seconds instead of minutes; nothing else differs.
"""

import asyncio
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import httpx
import pytest
import websockets

from codehub.domain.states import DesiredState
from codehub.kit.ids import uuid7
from codehub.server.control_plane import ControlPlane
from codehub.signals.connection import RedisLink
from codehub.signals.live import LivePublisher
from codehub.store.accounts import sessions as session_store
from codehub.store.accounts.secrets import hash_secret
from codehub.store.cluster.installation import get_or_create
from codehub.store.db.session import Sessions
from codehub.store.schema.tables import workspaces
from tests.chaos.quick_proxy import LEASE_SECONDS
from tests.support.control import ControlEnvironment
from tests.support.instance import process_variables
from tests.support.people import ECHO_ON_PORT
from tests.support.redis import RedisServer, make_memory_old
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(180)

QUICK_PROXY = Path(__file__).with_name("quick_proxy.py")


@dataclass
class ActivityEnvironment:
    """A control environment with one running workspace behind a proxy of its own."""

    control: ControlEnvironment
    plane: ControlPlane
    proxy: asyncio.subprocess.Process
    port: int
    workspace_id: UUID
    cookie: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def socket(self) -> "websockets.connect":
        return websockets.connect(
            f"ws://127.0.0.1:{self.port}/w/{self.workspace_id}/socket",
            origin=websockets.Origin(self.url),
            additional_headers={"Cookie": self.cookie},
            proxy=None,
            ping_interval=None,
        )

    async def get(self) -> int:
        async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
            answer = await client.get(f"{self.url}/w/{self.workspace_id}/", headers={"Cookie": self.cookie})
        return answer.status_code

    async def desired(self) -> DesiredState:
        return (await self.control.view(self.workspace_id)).desired_state

    async def until_open(self) -> None:
        async def answers() -> bool:
            try:
                return await self.get() == 200
            except httpx.TransportError:
                return False

        await until(answers, seconds=60, what="the workspace to answer")

    async def ticks(self, *, more: int) -> None:
        loop = self.plane.loops["ttl"]
        target = loop.status.ticks + more

        async def reached() -> bool:
            return loop.status.ticks >= target

        await until(reached, what=f"{more} more ticks of the TTL manager")


@pytest.fixture
async def environment(
    database_url: str,
    redis_url: str,
    session_factory: Sessions,
    tmp_path: Path,
) -> AsyncIterator[ActivityEnvironment]:
    control = ControlEnvironment(database_url, redis_url, tmp_path, session_factory)
    await control.prepare()
    secret = secrets.token_urlsafe(16)
    async with session_factory() as session, session.begin():
        control.installation_id = str((await get_or_create(session)).id)
        await session_store.create(
            session,
            session_id=uuid7(),
            user_id=control.owner_id,
            secret_hash=hash_secret(secret),
            idle=timedelta(days=1),
            absolute=timedelta(days=1),
        )
    runtime = await control.runtime(images={"echo": ECHO_ON_PORT})
    async with control.replica(runtime=runtime) as plane, running_proxy(control) as (proxy, port):
        workspace_id = await control.create(image="echo", standby_ttl_seconds=600)
        await control.until_status(workspace_id, "running")
        environment = ActivityEnvironment(
            control, plane, proxy, port, workspace_id, f"codehub_session={secret}"
        )
        await environment.until_open()
        yield environment


@asynccontextmanager
async def running_proxy(control: ControlEnvironment) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        process = await asyncio.create_subprocess_exec(
            *(
                sys.executable,
                str(QUICK_PROXY),
                str(listening.fileno()),
                str(control.data_dir / "numbers.json"),
            ),
            pass_fds=(listening.fileno(),),
            cwd=QUICK_PROXY.parents[2],
            env=process_variables(
                DATABASE_URL=control.database_url,
                REDIS_URL=control.redis_url,
                CODEHUB_DATA_DIR=str(control.data_dir),
                CODEHUB_API_UPSTREAM="unix:///nowhere",
                CODEHUB_ROLES="proxy",
                CODEHUB_BASE_URL=f"http://127.0.0.1:{port}",
                CODEHUB_BIND=f"127.0.0.1:{port}",
                LOCAL_IMAGES=f'{{"echo": "{ECHO_ON_PORT}"}}',
                LOG_LEVEL="ERROR",
            ),
        )
        try:
            yield process, port
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


async def sleeps_soon(environment: ActivityEnvironment) -> None:
    async with environment.control.sessions() as session, session.begin():
        await session.exec(
            workspaces.update()
            .where(workspaces.c.id == environment.workspace_id)
            .values(standby_ttl_seconds=1)
        )


async def test_a_killed_proxy_leaves_nobody_awake(
    environment: ActivityEnvironment, redis_server: RedisServer
) -> None:
    key = f"ws_conn:{environment.workspace_id}"
    await sleeps_soon(environment)
    async with environment.socket() as first, environment.socket() as second:
        for tab in (first, second):
            await tab.send("here")
            assert await tab.recv() == "here"

        async def held() -> float:
            with redis_server.admin as client:
                return max((score for _, score in client.zrange(key, 0, -1, withscores=True)), default=0.0)

        begun = await until(held)

        async def renewed() -> bool:
            return await held() > begun + 2 * LEASE_SECONDS * 1000

        # Renewed for longer than leases and idle times last: in use all the while.
        await until(renewed, what="the leases to be renewed")
        assert await environment.desired() is DesiredState.RUNNING

        environment.proxy.send_signal(signal.SIGKILL)
        await environment.proxy.wait()
        await environment.control.until_status(environment.workspace_id, "standby")
    causes = [event.cause for event in await environment.control.history(environment.workspace_id)]
    assert "idle for 1 s" in causes


async def test_without_redis_work_goes_on_and_nobody_is_put_to_sleep(
    environment: ActivityEnvironment, redis_server: RedisServer
) -> None:
    async with environment.socket() as tab:
        await sleeps_soon(environment)
        redis_server.kill()

        async def vouched_for() -> bool:
            await tab.send("still here")
            assert await tab.recv() == "still here"
            assert await environment.get() == 200
            active_until = (await environment.control.view(environment.workspace_id)).active_until
            return active_until is not None and active_until > datetime.now(UTC)

        await until(vouched_for, what="the proxy to say in PostgreSQL that it is in use")
        await environment.ticks(more=5)
        assert await environment.desired() is DesiredState.RUNNING

        # Redis comes back and remembers nothing. The proxy tells it again; nobody falls asleep meanwhile.
        redis_server.start()
        key = f"ws_conn:{environment.workspace_id}"

        async def told_again() -> bool:
            with redis_server.admin as client:
                return bool(client.exists(key))

        await until(told_again, what="leases in the new Redis")
        await environment.ticks(more=5)
        assert await environment.desired() is DesiredState.RUNNING
        await tab.send("and here")
        assert await tab.recv() == "and here"


async def test_an_open_tab_survives_a_redis_that_forgets(
    environment: ActivityEnvironment, redis_server: RedisServer
) -> None:
    await sleeps_soon(environment)
    async with environment.socket() as tab:
        redis_server.flush()
        await environment.ticks(more=10)
        await tab.send("here")
        assert await tab.recv() == "here"
        assert await environment.desired() is DesiredState.RUNNING
    await make_memory_old(environment.control.redis_url)
    await environment.control.until_status(environment.workspace_id, "standby")


async def test_a_shorter_idle_time_counts_for_a_tab_that_is_open(environment: ActivityEnvironment) -> None:
    """The person lowers it and closes the tab: no request comes in between to learn it from."""
    async with environment.socket() as tab:
        await tab.send("here")
        assert await tab.recv() == "here"
        await sleeps_soon(environment)
    await environment.control.until_status(environment.workspace_id, "standby")


async def test_a_session_that_ended_loses_its_sockets_also_without_redis(
    environment: ActivityEnvironment, redis_server: RedisServer
) -> None:
    """Nobody can be told then: the proxy looks by itself, every quarter of a minute."""
    async with environment.socket() as tab:
        redis_server.kill()
        async with environment.control.sessions() as session, session.begin():
            await session_store.end_all(session, environment.control.owner_id)
        with pytest.raises(websockets.ConnectionClosed):
            async with asyncio.timeout(60):
                await tab.recv()
    redis_server.start()


async def test_a_session_that_ended_loses_its_sockets_by_the_hint(
    environment: ActivityEnvironment, redis_link: RedisLink
) -> None:
    """What the API publishes after a sign-out. Told once: the periodic look is not waited for."""
    async with environment.socket() as tab:
        async with environment.control.sessions() as session, session.begin():
            await session_store.end_all(session, environment.control.owner_id)
        assert await LivePublisher(redis_link).publish_person(environment.control.owner_id)
        with pytest.raises(websockets.ConnectionClosed):
            async with asyncio.timeout(60):
                await tab.recv()
