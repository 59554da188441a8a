"""Who is connected and what happens next reach open pages by themselves, and losing the hint costs little."""

import asyncio
from collections.abc import Collection
from typing import Any
from uuid import UUID

from codehub.signals.activity import ActivityReading
from tests.integration.api.environment import ApiEnvironment, create_workspace, user_id
from tests.integration.api.listening import Listener
from tests.integration.api.test_events import execute, reading, until_equal
from tests.support.waiting import until


async def until_told(heard: Listener, workspace_id: str, **expected: Any) -> dict[str, Any]:
    async def told() -> dict[str, Any] | None:
        activity = heard.workspaces.get(workspace_id, {}).get("activity", {})
        return activity if all(activity.get(key) == value for key, value in expected.items()) else None

    found: dict[str, Any] | None = await until(told, what=f"activity {expected}")
    assert found is not None
    return found


async def a_running_one(environment: ApiEnvironment, client: Any) -> str:
    workspace_id: str = (await create_workspace(client))["id"]
    await execute(environment, "UPDATE workspaces SET desired_state = 'RUNNING', observed_status = 'RUNNING'")
    return workspace_id


async def test_a_connection_is_told_when_it_opens_and_when_it_ends(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace_id = await a_running_one(environment, ann)
    owner = await user_id(ann)
    async with reading(environment, database_url, ann) as heard:
        await until_equal(heard, ann)
        await environment.activity.take(UUID(workspace_id), "tab", ttl_seconds=300)
        await environment.publisher.publish_activity(UUID(workspace_id), owner)
        opened = await until_told(heard, workspace_id, connections=1)
        assert opened["next"] is None, "in use: nothing is promised"
        told = heard.named("activity")[-1]
        assert told.id is None
        assert set(told.data) == {"id", "activity"}

        await environment.activity.release(UUID(workspace_id), "tab", ttl_seconds=300)
        await environment.publisher.publish_activity(UUID(workspace_id), owner)
        closed = await until_told(heard, workspace_id, connections=0)
        assert closed["next"]["to"] == "STANDBY"
        answered = (await ann.get(f"/api/v1/workspaces/{workspace_id}")).json()["activity"]
        estimates = {"next": None, "awake": None}  # their moments are
        assert {**closed, **estimates} == {**answered, **estimates}


async def test_a_lost_hint_is_made_good_by_the_next_snapshot(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace_id = await a_running_one(environment, ann)
    async with reading(environment, database_url, ann) as heard:
        await until_equal(heard, ann)
        await environment.activity.take(UUID(workspace_id), "tab", ttl_seconds=300)

        async def told() -> bool:
            await environment.publisher.publish_resync()
            return bool(heard.workspaces[workspace_id]["activity"]["connections"] == 1)

        await until(told, what="the snapshot tells")


async def test_a_stranger_hears_nothing_of_it(environment: ApiEnvironment, database_url: str) -> None:
    ann, bob = await environment.sign_in("ann"), await environment.sign_in("bob")
    workspace_id = await a_running_one(environment, ann)
    async with reading(environment, database_url, bob) as heard:
        await heard.until(1, "snapshot")
        await environment.publisher.publish_activity(UUID(workspace_id), await user_id(ann))
        # Even a hint that names the wrong owner shows nothing: this reader was never told of the workspace.
        await environment.publisher.publish_activity(UUID(workspace_id), await user_id(bob))
        await create_workspace(bob, "mark")  # comes after, on the same road
        await until_equal(heard, bob)
        assert heard.named("activity") == []


async def test_many_readers_of_one_hint_ask_redis_once(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace_id = UUID(await a_running_one(environment, ann))
    frames = environment.app.state.codehub.frames
    reads: list[list[UUID]] = []
    read = environment.activity.read

    async def counted(workspace_ids: Collection[UUID]) -> ActivityReading:
        reads.append(list(workspace_ids))
        return await read(workspace_ids)

    environment.activity.read = counted  # type: ignore[method-assign]
    answers = await asyncio.gather(*(frames.activities([workspace_id]) for _ in range(50)))
    assert len({each[workspace_id] for each in answers}) == 1
    assert reads == [[workspace_id]]


async def test_another_idle_period_moves_the_promise_at_once(
    environment: ApiEnvironment, database_url: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace_id = await a_running_one(environment, ann)
    await execute(environment, "UPDATE workspaces SET last_access_at = now() - interval '1 day'")
    await environment.activity.touch(UUID(workspace_id), 300)
    async with reading(environment, database_url, ann) as heard:
        await until_equal(heard, ann)
        for seconds in (60, 3600):
            await ann.patch(f"/api/v1/workspaces/{workspace_id}", json={"standby_ttl_seconds": seconds})

            async def follows(seconds: int = seconds) -> bool:
                timer = (await environment.activity.read([UUID(workspace_id)])).activities[UUID(workspace_id)]
                assert timer.idle_timer is not None
                left = timer.idle_timer.total_seconds()
                return seconds - 30 < left <= seconds and bool(heard.named("activity"))

            await until(follows, what=f"a timer of {seconds} s")
            heard.events.clear()
