"""From a committed change to everybody who waits for it: coordinators and browsers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import asyncpg
import pytest

from codehub.coordinators import event_listener
from codehub.server.control_plane import ControlPlane
from codehub.signals.connection import RedisLink
from codehub.signals.live import Change, LiveFeed, LiveSubscription, Resync
from codehub.store.db.connections import asyncpg_dsn
from tests.support.control import ControlEnvironment, fast_settings
from tests.support.redis import RedisServer
from tests.support.waiting import until

# Polling so slow that whatever arrives within the test came by an event.
SLOW = {
    "OBSERVER_INTERVAL": "3600",
    "OBSERVER_ACTIVE_INTERVAL": "3600",
    "RECONCILER_INTERVAL": "3600",
    "RECONCILER_ACTIVE_INTERVAL": "3600",
    "RECONCILER_CONVERGE_INTERVAL": "3600",
    "TTL_INTERVAL": "3600",
}


async def next_change(subscription: LiveSubscription, workspace_id: UUID, *, column: str) -> Change:
    async with asyncio.timeout(20):
        async for notice in subscription:
            if isinstance(notice, Change) and notice.id == workspace_id and column in notice.changed:
                return notice
    raise AssertionError("the feed ended")


async def _leads(plane: ControlPlane) -> bool:
    return all(loop.leadership.is_leader for loop in plane.loops.values())


async def test_hints_alone_carry_the_whole_walk(environment: ControlEnvironment) -> None:
    """No poll helps here: whatever happens was caused by an event."""
    async with environment.replica(settings=fast_settings(**SLOW)) as plane:
        await until(lambda: _leads(plane), what="all five to lead")
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running", seconds=20)
        await environment.intent(workspace_id, "stop")
        await environment.until_status(workspace_id, "standby", seconds=20)


async def test_every_change_reaches_a_subscriber_in_order(
    environment: ControlEnvironment, redis_link: RedisLink
) -> None:
    feed = LiveFeed(redis_link)
    feed.start()
    try:
        with feed.subscribe_user(environment.owner_id) as subscription:
            async with environment.replica() as plane:
                await until(lambda: _leads(plane))
                workspace_id = await environment.create()
                seen: list[int] = []
                async with asyncio.timeout(30):
                    async for notice in subscription:
                        if isinstance(notice, Change) and notice.id == workspace_id:
                            seen.append(notice.version)
                            if (await environment.record(workspace_id)).status == "running" and seen[-1] == (
                                await environment.view(workspace_id)
                            ).version:
                                break
                assert seen == sorted(set(seen)), "each version once, in order"
    finally:
        await feed.close()


async def change(environment: ControlEnvironment, workspace_id: UUID, assignment: str) -> None:
    """As somebody else commits it: no coordinator here has anything to answer to that."""
    connection = await asyncpg.connect(asyncpg_dsn(environment.database_url))
    try:
        await connection.execute(f"UPDATE workspaces SET {assignment} WHERE id = $1", workspace_id)
    finally:
        await connection.close()


@asynccontextmanager
async def told_by_events_alone(
    environment: ControlEnvironment, link: RedisLink
) -> AsyncIterator[LiveSubscription]:
    """What the owner hears while all five lead and nothing is polled."""
    feed = LiveFeed(link)
    feed.start()
    try:
        with feed.subscribe_user(environment.owner_id) as subscription:
            async with environment.replica(settings=fast_settings(**SLOW)) as plane:
                await until(lambda: _leads(plane))
                yield subscription
    finally:
        await feed.close()


async def test_what_may_be_answered_is_told_together_with_what_follows(
    environment: ControlEnvironment, redis_link: RedisLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_listener, "ANSWERED_SECONDS", 3600.0)
    async with told_by_events_alone(environment, redis_link) as subscription:
        workspace_id = await environment.create(start=False)
        await change(environment, workspace_id, "health_status = 'ERROR'")
        await change(environment, workspace_id, "memo = 'seen'")
        told = await next_change(subscription, workspace_id, column="name")
        assert told.changed >= {"name", "health_status", "memo"}
        assert told.version == (await environment.view(workspace_id)).version == 3


async def test_what_was_seen_is_told_although_nothing_follows(
    environment: ControlEnvironment, redis_link: RedisLink
) -> None:
    async with told_by_events_alone(environment, redis_link) as subscription:
        workspace_id = await environment.create(start=False)
        await next_change(subscription, workspace_id, column="name")
        await change(environment, workspace_id, "health_status = 'ERROR'")
        told = await next_change(subscription, workspace_id, column="health_status")
        assert told.changed == {"health_status"}


async def test_a_lost_session_ends_in_a_resync_and_goes_on(
    environment: ControlEnvironment, redis_link: RedisLink
) -> None:
    feed = LiveFeed(redis_link)
    feed.start()
    admin = await asyncpg.connect(asyncpg_dsn(environment.database_url))
    try:
        async with environment.replica() as plane:
            await until(lambda: _leads(plane))
            workspace_id = await environment.create(start=False)
            with feed.subscribe_workspace(workspace_id) as subscription:
                await admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE application_name = 'codehub-events' AND datname = current_database()"
                )
                async with asyncio.timeout(20):
                    async for notice in subscription:
                        if isinstance(notice, Resync):
                            break
                await environment.intent(workspace_id, "start")
                await next_change(subscription, workspace_id, column="desired_state")
    finally:
        await admin.close()
        await feed.close()


async def test_redis_away_is_answered_by_a_resync_when_it_is_back(
    environment: ControlEnvironment, redis_server: RedisServer, redis_link: RedisLink
) -> None:
    feed = LiveFeed(redis_link)
    feed.start()
    try:
        async with environment.replica() as plane:
            await until(lambda: _leads(plane))
            workspace_id = await environment.create(start=False)
            with feed.subscribe_workspace(workspace_id) as subscription:
                redis_server.kill()
                await environment.intent(workspace_id, "start")  # nobody hears of this one
                await environment.until_status(workspace_id, "running")
                redis_server.start()
                async with asyncio.timeout(20):
                    async for notice in subscription:
                        if isinstance(notice, Resync):
                            break
                await environment.intent(workspace_id, "stop")
                # As a change, or within the resync the listener owes for what Redis did not take.
                async with asyncio.timeout(20):
                    async for notice in subscription:
                        if isinstance(notice, Resync) or "desired_state" in getattr(notice, "changed", ()):
                            break
    finally:
        await feed.close()


async def test_an_operator_hears_every_change_and_every_hint(
    environment: ControlEnvironment, redis_server: RedisServer
) -> None:
    """With redis-cli, and although all leaders sit in one process that needs no Redis among themselves."""
    async with environment.replica() as plane:
        await until(lambda: _leads(plane), what="one process to lead all")
        with redis_server.admin as admin, admin.pubsub() as heard:
            heard.psubscribe("workspace:*", "codehub:wake:ob", "codehub:wake:wc")
            workspace_id = await environment.create()
            await environment.until_status(workspace_id, "running")
            said: dict[str, list[bytes]] = {}

            async def heard_it_all() -> bool:
                while (message := heard.get_message(timeout=0.01)) is not None:
                    if message["type"] == "pmessage":
                        said.setdefault(message["channel"].decode(), []).append(message["data"])
                versions = [json.loads(each)["version"] for each in said.get(f"workspace:{workspace_id}", ())]
                current = (await environment.view(workspace_id)).version
                return versions == list(range(1, current + 1))

            await until(heard_it_all, what="every version of the workspace")
    for target in ("ob", "wc"):
        named = [json.loads(each).get("ids", []) for each in said[f"codehub:wake:{target}"]]
        assert [str(workspace_id)] in named
