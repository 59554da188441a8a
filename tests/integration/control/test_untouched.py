"""An open tab that nobody touches keeps nobody awake for ever, and doubt does."""

from datetime import timedelta
from uuid import UUID

import pytest

from codehub.domain.states import DesiredState
from codehub.signals.activity import ActivityLog, Lease
from codehub.signals.connection import RedisLink
from codehub.store.db.statements import clock
from codehub.store.schema.tables import workspaces
from tests.integration.control.test_ttl import run_one, ticks
from tests.support.control import ControlEnvironment, fast_settings
from tests.support.redis import RedisServer, make_memory_old

LIMIT = 600
SETTINGS = fast_settings(ACTIVITY_UNTOUCHED_LIMIT=str(LIMIT))


async def opened_long_ago(
    environment: ControlEnvironment, activity: ActivityLog, *, ttl: int, input_age: float | None
) -> UUID:
    """A workspace started two hours ago, as far as its row tells, and open in a tab."""
    workspace_id = await run_one(environment, str(input_age), standby_ttl_seconds=3600)
    await activity.write(leases=[tab(workspace_id, ttl=ttl, input_age=input_age)])
    async with environment.sessions() as session, session.begin():
        await session.exec(
            workspaces.update()
            .where(workspaces.c.id == workspace_id)
            .values(standby_ttl_seconds=ttl, last_access_at=clock() - timedelta(hours=2))
        )
    return workspace_id


def tab(workspace_id: UUID, *, ttl: int, input_age: float | None) -> Lease:
    return Lease("tab", workspace_id, ttl, input_age_seconds=input_age)


@pytest.mark.parametrize("ttl", [5, 20])
async def test_an_untouched_tab_sleeps_after_the_limit(
    environment: ControlEnvironment, redis_link: RedisLink, ttl: int
) -> None:
    activity = ActivityLog(redis_link)
    async with environment.replica(settings=SETTINGS) as plane:
        await make_memory_old(environment.redis_url)
        workspace_id = await opened_long_ago(environment, activity, ttl=ttl, input_age=LIMIT + 1)
        touched = await opened_long_ago(environment, activity, ttl=ttl, input_age=LIMIT - 300)
        await environment.until_status(workspace_id, "standby")
        causes = [event.cause for event in await environment.history(workspace_id)]
        assert "open but untouched for 10 min" in causes
        await ticks(plane, more=3)
        assert (await environment.view(touched)).desired_state is DesiredState.RUNNING


@pytest.mark.parametrize("ttl", [5, 20])
async def test_a_flush_makes_nobody_untouched(
    environment: ControlEnvironment, redis_link: RedisLink, redis_server: RedisServer, ttl: int
) -> None:
    """The input was in a tab that is closed by now: only Redis knew, and it has forgotten."""
    activity = ActivityLog(redis_link)
    async with environment.replica(settings=SETTINGS) as plane:
        workspace_id = await opened_long_ago(environment, activity, ttl=ttl, input_age=10)
        redis_server.flush()
        await activity.write(leases=[tab(workspace_id, ttl=ttl, input_age=None)])  # another tab, renewed
        # Old enough to know who is connected, and not who typed within the limit.
        await make_memory_old(environment.redis_url, seconds=LIMIT - 100)
        await ticks(plane, more=5)
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        await activity.write(leases=[tab(workspace_id, ttl=ttl, input_age=2 * LIMIT)])  # of the other tab
        await ticks(plane, more=5)
        assert (await environment.view(workspace_id)).desired_state is DesiredState.RUNNING
        await make_memory_old(environment.redis_url)
        await environment.until_status(workspace_id, "standby")
