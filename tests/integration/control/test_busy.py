"""A workspace that works without anybody stays awake, for the limit at most, and doubt counts as work."""

import sys
from datetime import timedelta
from pathlib import Path
from uuid import UUID

import pytest

from codehub.domain.busy import Busy, BusySign, BusyWith
from codehub.domain.states import DesiredState
from codehub.runtimes.local.layout import Layout
from codehub.server.settings.tree import Settings
from codehub.signals.activity import ActivityLog, Lease
from codehub.signals.connection import RedisLink
from codehub.store.db.statements import clock
from codehub.store.schema.tables import workspaces as rows
from tests.integration.control.test_ttl import ticks
from tests.support.control import ControlEnvironment, fast_settings
from tests.support.redis import RedisServer, make_memory_old
from tests.support.waiting import until

SERVER = Path(__file__).parents[2] / "support" / "working_server.py"
IMAGES = {"working": f"{sys.executable} -I -S {SERVER} {{socket}}"}
# Looks at the processors that are longer than the ticks elsewhere, and a share that a process gets on any machine.
SLOWER = {"TTL_INTERVAL": "1", "ACTIVITY_BUSY_CPU_PERCENT": "3"}
SIGNS = {
    "kernel": BusySign(BusyWith.KERNEL),
    "job": BusySign(BusyWith.JOB, "sleep"),
    "burn": BusySign(BusyWith.CPU),
    "silent": BusySign(BusyWith.UNKNOWN),
    "broken": BusySign(BusyWith.UNKNOWN),
}


class Working:
    """A workspace, told what to do."""

    def __init__(self, environment: ControlEnvironment, workspace_id: UUID) -> None:
        self.environment = environment
        self.id = workspace_id
        self._home = Layout(environment.data_dir, environment.installation_id).volume(workspace_id)

    async def does(self, word: str) -> None:
        (self._home / "work.new").write_text(word)
        (self._home / "work.new").rename(self._home / "work")
        done = self._home / "works"
        await until(lambda: done.exists() and done.read_text() == word, what=f"it to do: {word}")

    async def until_busy(self, sign: BusySign) -> Busy:
        async def is_busy() -> Busy | None:
            busy = (await self.environment.view(self.id)).busy
            return busy if busy is not None and busy.sign == sign else None

        busy = await until(is_busy, seconds=60, what=f"it to be known as busy: {sign}")
        assert busy is not None
        return busy

    async def until_renewed(self, before: Busy) -> None:
        """Its lease was over once since, or would be, had nobody sampled it again."""

        async def is_renewed() -> bool:
            busy = (await self.environment.view(self.id)).busy
            return busy is not None and busy.since == before.since and busy.until > before.until

        await until(is_renewed, seconds=60, what="its lease to be renewed")

    async def is_awake(self) -> bool:
        return (await self.environment.view(self.id)).desired_state is DesiredState.RUNNING


async def working(environment: ControlEnvironment, word: str, *, ttl: int = 1) -> Working:
    """One whose idle time is over, and that was told what to do before."""
    workspace_id = await environment.create(word, image="working", standby_ttl_seconds=3600)
    await environment.until_status(workspace_id, "running")
    workspace = Working(environment, workspace_id)
    await workspace.does(word)
    async with environment.sessions() as session, session.begin():
        used_up = {"standby_ttl_seconds": ttl, "last_access_at": clock() - timedelta(hours=1)}
        await session.exec(rows.update().where(rows.c.id == workspace_id).values(used_up))
    return workspace


def settings(**more: str) -> Settings:
    return fast_settings(**SLOWER, **more)


@pytest.mark.parametrize("word", SIGNS)
async def test_it_stays_awake_while_it_works_and_sleeps_after(
    environment: ControlEnvironment, word: str
) -> None:
    runtime = await environment.runtime(images=IMAGES)
    async with environment.replica(settings=settings(), runtime=runtime, samples=True):
        workspace = await working(environment, word)
        busy = await workspace.until_busy(SIGNS[word])
        await workspace.until_renewed(busy)
        assert await workspace.is_awake()
        await workspace.does("nothing")
        await environment.until_status(workspace.id, "standby", seconds=60)
        assert (await environment.view(workspace.id)).busy is None
        assert "idle for 1 s" in [event.cause for event in await environment.history(workspace.id)]


async def test_programs_in_terminals_need_not_count(environment: ControlEnvironment) -> None:
    runtime = await environment.runtime(images=IMAGES)
    off = settings(ACTIVITY_BUSY_JOBS="false")
    async with environment.replica(settings=off, runtime=runtime, samples=True):
        workspace = await working(environment, "job")
        await environment.until_status(workspace.id, "standby", seconds=60)


@pytest.mark.parametrize("word", ["job", "broken"])
async def test_work_and_doubt_count_for_the_limit(environment: ControlEnvironment, word: str) -> None:
    runtime = await environment.runtime(images=IMAGES)
    short = settings(ACTIVITY_BUSY_LIMIT="5")
    async with environment.replica(settings=short, runtime=runtime, samples=True):
        workspace = await working(environment, word)
        await workspace.until_busy(SIGNS[word])
        await environment.until_status(workspace.id, "standby", seconds=90)
        causes = [event.cause for event in await environment.history(workspace.id)]
        assert "busy for 5 s without anybody" in causes


async def test_a_limit_of_zero_asks_nobody(environment: ControlEnvironment) -> None:
    runtime = await environment.runtime(images=IMAGES)
    off = settings(ACTIVITY_BUSY_LIMIT="0")
    async with environment.replica(settings=off, runtime=runtime, samples=True):
        workspace = await working(environment, "kernel")
        await environment.until_status(workspace.id, "standby", seconds=60)


@pytest.mark.parametrize("ttl", [5, 20])
async def test_a_flush_of_redis_ends_no_work(
    environment: ControlEnvironment, redis_link: RedisLink, redis_server: RedisServer, ttl: int
) -> None:
    """Before it is known as busy, while it is, and in a tab that nobody has touched for long."""
    activity = ActivityLog(redis_link)
    runtime = await environment.runtime(images=IMAGES)
    quick = settings(ACTIVITY_UNTOUCHED_LIMIT="600")
    async with environment.replica(settings=quick, runtime=runtime, samples=True) as plane:
        workspace = await working(environment, "kernel", ttl=ttl)
        redis_server.flush()
        await make_memory_old(environment.redis_url)
        busy = await workspace.until_busy(SIGNS["kernel"])
        redis_server.flush()
        await ticks(plane, more=2)
        await make_memory_old(environment.redis_url)
        await workspace.until_renewed(busy)
        forgotten = Lease("tab", workspace.id, ttl, input_age_seconds=3600)
        await activity.write(leases=[forgotten])
        redis_server.flush()
        await activity.write(leases=[forgotten])
        await make_memory_old(environment.redis_url)
        await ticks(plane, more=5)
        assert await workspace.is_awake()


async def test_the_next_leader_ends_no_work(environment: ControlEnvironment) -> None:
    runtime = await environment.runtime(images=IMAGES)
    async with environment.replica(
        "one", settings=settings(), runtime=runtime, samples=True, keep_workspaces=True
    ):
        workspace = await working(environment, "burn")
        busy = await workspace.until_busy(SIGNS["burn"])
    runtime = await environment.runtime(images=IMAGES)
    async with environment.replica("two", settings=settings(), runtime=runtime, samples=True):
        await workspace.until_renewed(busy)
        assert await workspace.is_awake()
