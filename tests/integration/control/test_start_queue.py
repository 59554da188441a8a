"""The queue with real coordinators: it starts by itself, and outlives whoever admits."""

from uuid import UUID

from codehub.domain.limits import RunningLimits
from codehub.services import workspaces
from codehub.store.workspaces import events
from tests.support.control import ADMIN, ControlEnvironment, fast_settings
from tests.support.waiting import until

ONE = RunningLimits(per_user=1, in_all=10)
SETTINGS = {"LIMITS_MAX_RUNNING_PER_USER": "1", "TTL_INTERVAL": "30"}


async def wait_in_line(environment: ControlEnvironment, workspace_id: UUID) -> None:
    async with environment.sessions.begin() as session:
        record = await workspaces.start(session, workspace_id, actor=ADMIN, limits=ONE, queue=True)
    assert record.view.is_queued


async def test_it_starts_when_a_place_is_free_also_after_everything_was_restarted(
    environment: ControlEnvironment,
) -> None:
    settings = fast_settings(**SETTINGS)
    async with environment.replica(settings=settings) as plane:
        first = await environment.create("first")
        await environment.until_status(first, "running")
        second, third = [await environment.create(name, start=False) for name in ("second", "third")]
        await wait_in_line(environment, second)
        manager = plane.loops["ttl"].coordinator
        # A hint tells the TTL manager: its next round is half a minute away.
        await until(lambda: manager.next_wait_seconds() <= 1, what="the TTL manager to look at the queue")
        await environment.intent(first, "stop")
        await environment.until_status(second, "running")
        assert ("queue", "a running place was free") in await causes(environment, second)
        await wait_in_line(environment, third)
    await environment.intent(second, "stop")  # nobody is there to see it
    async with environment.replica("two", settings=settings):
        await environment.until_status(third, "running")
    assert not (await environment.view(third)).is_queued


async def causes(environment: ControlEnvironment, workspace_id: UUID) -> list[tuple[str | None, str | None]]:
    async with environment.sessions() as session:
        page = await events.list_page(session, workspace_id, limit=200)
    return [(event.actor, event.cause) for event in page.items]
