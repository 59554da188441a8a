"""Idle workspaces sleep, forgotten ones are archived, and every doubt keeps them awake."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from prometheus_client import REGISTRY
from sqlalchemy import text

from codehub.coordinators import ttl_manager
from codehub.domain.states import DesiredState
from codehub.domain.ttl import LEASE_SECONDS, Activity
from codehub.kit.clock import boottime
from codehub.server.control_plane import ControlPlane
from codehub.services import workspaces
from codehub.signals.activity import EPOCH_KEY, ActivityLog, ActivityReading, RedisIdentity
from codehub.signals.connection import RedisLink
from tests.support.control import ADMIN, ControlEnvironment, fast_settings
from tests.support.redis import RedisServer, make_memory_old
from tests.support.waiting import until


async def ticks(plane: ControlPlane, *, more: int) -> None:
    """Wait until the TTL manager has looked that many times again."""
    loop = plane.loops["ttl"]
    target = loop.status.ticks + more

    async def reached() -> bool:
        return loop.status.ticks >= target

    await until(reached, what=f"{more} more ticks of the TTL manager")


async def run_one(
    environment: ControlEnvironment,
    name: str = "home",
    *,
    standby_ttl_seconds: int,
    archive_ttl_seconds: int = 86400,
) -> UUID:
    workspace_id = await environment.create(
        name, standby_ttl_seconds=standby_ttl_seconds, archive_ttl_seconds=archive_ttl_seconds
    )
    await environment.until_status(workspace_id, "running")
    return workspace_id


async def edit(environment: ControlEnvironment, workspace_id: UUID, **changes: int) -> None:
    async with environment.sessions() as session, session.begin():
        await workspaces.edit(session, workspace_id, dict(changes), actor=ADMIN)


async def test_an_idle_workspace_sleeps_and_the_timeline_says_why(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await run_one(environment, standby_ttl_seconds=1)
        await environment.until_status(workspace_id, "standby")
        causes = [
            (event.actor, event.cause)
            for event in await environment.history(workspace_id)
            if event.changes.get("desired_state") == ("RUNNING", "STANDBY")
        ]
        assert causes == [("ttl", "idle for 1 s")]


async def test_a_forgotten_workspace_is_archived(environment: ControlEnvironment) -> None:
    async with environment.replica():
        workspace_id = await run_one(environment, standby_ttl_seconds=1, archive_ttl_seconds=1)
        ws = await environment.until_status(workspace_id, "archived")
        assert ws.desired_state is DesiredState.PENDING


async def test_an_open_connection_keeps_it_awake(
    environment: ControlEnvironment, redis_link: RedisLink
) -> None:
    activity = ActivityLog(redis_link)
    async with environment.replica() as plane:
        workspace_id = await environment.create(standby_ttl_seconds=1)
        await activity.take(workspace_id, "tab", ttl_seconds=1)
        await environment.until_status(workspace_id, "running")

        async def idle_period_is_over() -> bool:
            ws = await environment.view(workspace_id)
            return datetime.now(UTC) - ws.last_access_at > timedelta(seconds=2)

        await until(idle_period_is_over)
        await ticks(plane, more=3)
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        await activity.release(workspace_id, "tab", ttl_seconds=1)
        await environment.until_status(workspace_id, "standby")


async def test_a_shorter_idle_period_counts_from_the_last_use(
    environment: ControlEnvironment, redis_link: RedisLink
) -> None:
    activity = ActivityLog(redis_link)
    async with environment.replica() as plane:
        workspace_id = await run_one(environment, standby_ttl_seconds=3600)
        await activity.touch(workspace_id, 3600)
        await ticks(plane, more=2)
        await edit(environment, workspace_id, standby_ttl_seconds=1)
        await activity.retime(workspace_id, 1)
        await environment.until_status(workspace_id, "standby")


async def test_a_longer_idle_period_is_not_cut_by_the_timer_of_the_shorter_one(
    environment: ControlEnvironment, redis_link: RedisLink, redis_server: RedisServer
) -> None:
    """Also if nobody could tell Redis: the last use itself says that the time is not over."""
    activity = ActivityLog(redis_link)
    async with environment.replica() as plane:
        workspace_id = await environment.create(standby_ttl_seconds=3600)
        await environment.until_status(workspace_id, "running")
        await edit(environment, workspace_id, standby_ttl_seconds=600)
        await activity.touch(workspace_id, 0.1)  # a proxy that had not heard of it
        async with environment.sessions() as session, session.begin():
            # Long awake: what protects one that just came up does not help here. Only now that a use is known: a tick
            # between the two would rightly put it to sleep.
            await session.exec(text("UPDATE workspaces SET last_access_at = now() - interval '1 day'"))

        async def timer_is_over() -> bool:
            return (await activity.read_many([workspace_id]))[workspace_id].idle_timer is None

        await until(timer_is_over)
        redis_server.admin.hset(EPOCH_KEY, "born", 0)  # a memory old enough to be believed
        await ticks(plane, more=3)
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        redis_server.admin.hset(f"last_seen:{workspace_id}", "at", 1)  # and without that use it sleeps
        await environment.until_status(workspace_id, "standby")


async def test_ttl_zero_is_never(environment: ControlEnvironment) -> None:
    async with environment.replica() as plane:
        never = await run_one(environment, "never", standby_ttl_seconds=0)
        soon = await run_one(environment, "soon", standby_ttl_seconds=1)
        await environment.until_status(soon, "standby")
        await ticks(plane, more=3)
        assert (await environment.view(never)).desired_state is DesiredState.RUNNING


async def test_keep_awake_is_kept(environment: ControlEnvironment) -> None:
    async with environment.replica() as plane:
        workspace_id = await environment.create(standby_ttl_seconds=1)
        async with environment.sessions() as session, session.begin():
            await workspaces.keep_awake(session, workspace_id, for_=timedelta(hours=1), actor=ADMIN)
        await environment.until_status(workspace_id, "running")
        other = await run_one(environment, "other", standby_ttl_seconds=1)
        await environment.until_status(other, "standby")
        await ticks(plane, more=2)
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        async with environment.sessions() as session, session.begin():
            await workspaces.keep_awake(session, workspace_id, for_=timedelta(0), actor=ADMIN)
        await environment.until_status(workspace_id, "standby")


async def test_without_redis_nobody_is_put_to_sleep(
    environment: ControlEnvironment, redis_server: RedisServer
) -> None:
    async with environment.replica() as plane:
        workspace_id = await run_one(environment, standby_ttl_seconds=2)
        redis_server.kill()
        try:

            async def idle_period_is_over() -> bool:
                ws = await environment.view(workspace_id)
                return datetime.now(UTC) - ws.last_access_at > timedelta(seconds=3)

            await until(idle_period_is_over)
            await ticks(plane, more=2)
            assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        finally:
            redis_server.start()
        # Its memory is new: an idle period passes, and nobody sleeps. Once it is old enough they do.
        await ticks(plane, more=5)
        await make_memory_old(environment.redis_url, seconds=LEASE_SECONDS - 5)
        await ticks(plane, more=3)
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        await make_memory_old(environment.redis_url)
        await environment.until_status(workspace_id, "standby")


@pytest.mark.parametrize("ttl_seconds", [1, 5, 29])
async def test_a_short_idle_time_waits_for_every_proxy_to_renew_after_a_flush(
    environment: ControlEnvironment, redis_link: RedisLink, redis_server: RedisServer, ttl_seconds: int
) -> None:
    """Leases are renewed every 30 s: a memory that is older than the idle time proves nothing before."""
    activity = ActivityLog(redis_link)
    async with environment.replica() as plane:
        workspace_id = await environment.create(standby_ttl_seconds=ttl_seconds)
        await activity.take(workspace_id, "tab", ttl_seconds=ttl_seconds)
        await environment.until_status(workspace_id, "running")
        async with environment.sessions() as session, session.begin():
            await session.exec(text("UPDATE workspaces SET last_access_at = now() - interval '1 day'"))
        redis_server.flush()
        for age in (ttl_seconds + 1, 31, LEASE_SECONDS - 5):
            await make_memory_old(environment.redis_url, seconds=age)
            await ticks(plane, more=3)
            assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        await activity.take(workspace_id, "tab", ttl_seconds=ttl_seconds)  # the proxy renews
        await make_memory_old(environment.redis_url)
        await ticks(plane, more=3)
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING


class JumpingClock:
    """Redis with nobody in it, as it answers once the clock of its host was put forward."""

    def __init__(self) -> None:
        self.jumped_seconds = 0.0

    async def read(self, workspace_ids: Sequence[UUID]) -> ActivityReading:
        identity = RedisIdentity("run", "epoch", 1e6, now_seconds=boottime() + self.jumped_seconds)
        return ActivityReading(identity, dict.fromkeys(workspace_ids, Activity()))


async def test_a_clock_of_redis_that_jumped_counts_as_a_lost_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leases end by that clock: all of them at once if it is put forward."""
    now = boottime()
    monkeypatch.setattr(ttl_manager, "boottime", lambda: now)
    clock, memory = JumpingClock(), ttl_manager.RedisMemory()

    async def age() -> float:
        return memory.age_seconds((await clock.read(())).identity)

    clock.jumped_seconds = now - boottime()
    assert await age() > 1e5
    clock.jumped_seconds += 2 * 86400
    assert await age() == 0
    now += 60
    clock.jumped_seconds += 60
    assert 59 < await age() < 61


async def test_twenty_in_use_survive_a_flush(
    environment: ControlEnvironment, redis_link: RedisLink, redis_server: RedisServer
) -> None:
    """Redis forgets every lease. Before a full idle period has passed the proxies have renewed them."""
    activity = ActivityLog(redis_link)
    async with environment.replica() as plane:
        ids = [await environment.create(f"w{n}", standby_ttl_seconds=3) for n in range(20)]
        for workspace_id in ids:
            await activity.take(workspace_id, "tab", ttl_seconds=3)
        for workspace_id in ids:
            await environment.until_status(workspace_id, "running", seconds=60)
        redis_server.flush()
        await ticks(plane, more=3)
        for workspace_id in ids:  # what a proxy does every 30 s
            await activity.take(workspace_id, "tab", ttl_seconds=3)

        async def old_enough() -> bool:
            return (await activity.identity()).age_seconds > 4

        await until(old_enough)
        await ticks(plane, more=3)
        for workspace_id in ids:
            assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING


async def test_too_many_idle_at_once_are_held_for_one_more_period(
    environment: ControlEnvironment, redis_link: RedisLink
) -> None:
    await ActivityLog(redis_link).identity()  # Redis's memory begins here, and is old enough later on
    before = REGISTRY.get_sample_value("codehub_ttl_mass_idle_total") or 0
    settings = fast_settings(TTL_INTERVAL="3600")
    async with environment.replica(settings=settings) as plane:
        ids = [await environment.create(f"w{n}", standby_ttl_seconds=1) for n in range(7)]
        for workspace_id in ids:
            await environment.until_status(workspace_id, "running", seconds=60)

        async def all_idle() -> bool:
            views = [await environment.view(each) for each in ids]
            return all(datetime.now(UTC) - ws.last_access_at > timedelta(seconds=1.5) for ws in views)

        await until(all_idle)
        loop = plane.loops["ttl"]
        loop.coordinator.wake_signal.set()
        await ticks(plane, more=1)
        assert REGISTRY.get_sample_value("codehub_ttl_mass_idle_total") == before + 1
        for workspace_id in ids:
            assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING

        async def held_over() -> bool:
            loop.coordinator.wake_signal.set()
            views = [await environment.view(each) for each in ids]
            return all(ws.desired_state is DesiredState.STANDBY for ws in views)

        await until(held_over, what="the hold to end")


async def test_a_person_who_presses_start_in_the_same_moment_wins(environment: ControlEnvironment) -> None:
    """The TTL manager read RUNNING and idle; before it wrote, the person asked again."""
    async with environment.replica(settings=fast_settings(TTL_INTERVAL="3600")):
        workspace_id = await run_one(environment, standby_ttl_seconds=1)
        seen = await environment.view(workspace_id)
        async with environment.sessions() as session, session.begin():
            await session.exec(
                text("UPDATE workspaces SET last_access_at = clock_timestamp() WHERE id = :id"),
                {"id": workspace_id},
            )

        async def still_due(ws: object) -> bool:
            return ws == seen

        async with environment.sessions() as session, session.begin():
            lowered = await workspaces.lower(
                session, seen, DesiredState.STANDBY, actor=ADMIN, cause="idle", still_due=still_due
            )
        assert lowered is False
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING


@pytest.mark.parametrize("change", ["stopped", "deleted"])
async def test_an_intent_that_changed_meanwhile_is_not_overrun(
    environment: ControlEnvironment, change: str
) -> None:
    workspace_id = await environment.create(start=True)
    seen = await environment.view(workspace_id)
    await environment.intent(workspace_id, {"stopped": "stop", "deleted": "delete"}[change])

    async def always(_ws: object) -> bool:
        return change == "stopped"

    async with environment.sessions() as session, session.begin():
        assert not await workspaces.lower(
            session, seen, DesiredState.PENDING, actor=ADMIN, cause="late", still_due=always
        )
