"""The keeper carries a proxy's activity to Redis, through outages, in one order."""

from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import pytest

from codehub.domain.ttl import Activity
from codehub.signals.activity import ActivityLog
from codehub.signals.connection import RedisLink
from codehub.signals.lease_keeper import LeaseKeeper
from tests.integration.signals.waiting import eventually
from tests.support.redis import RedisServer

TTL = 300.0


@pytest.fixture
def log(redis_link: RedisLink) -> ActivityLog:
    return ActivityLog(redis_link, lease_seconds=0.6)


@pytest.fixture
async def keeper(log: ActivityLog) -> AsyncIterator[LeaseKeeper]:
    keeper = LeaseKeeper(log, renew_seconds=0.1)
    keeper.start()
    yield keeper
    await keeper.close()


async def read_one(log: ActivityLog, workspace_id: UUID) -> Activity:
    return (await log.read_many([workspace_id]))[workspace_id]


async def connections(log: ActivityLog, workspace_id: UUID, expected: int) -> None:
    async def reached() -> bool:
        return (await read_one(log, workspace_id)).connections == expected

    await eventually(reached, what=f"{expected} connections")


async def test_a_connection_is_seen_while_it_lasts(log: ActivityLog, keeper: LeaseKeeper) -> None:
    ws = uuid4()
    one, two = keeper.take(ws, ttl_seconds=TTL), keeper.take(ws, ttl_seconds=TTL)
    await connections(log, ws, 2)
    keeper.release(one)
    keeper.release(one)  # twice does no harm
    await connections(log, ws, 1)
    keeper.release(two)
    await connections(log, ws, 0)
    assert (await read_one(log, ws)).in_use  # the idle timer runs


async def test_a_lease_outlives_its_expiry_by_being_renewed(log: ActivityLog, keeper: LeaseKeeper) -> None:
    ws = uuid4()
    keeper.take(ws, ttl_seconds=TTL)
    await connections(log, ws, 1)
    first = (await read_one(log, ws)).last_seen_at
    assert first is not None

    async def far_beyond_one_lease() -> bool:
        activity = await read_one(log, ws)
        assert activity.connections == 1
        assert activity.last_seen_at is not None
        return (activity.last_seen_at - first).total_seconds() > 2 * log.lease_seconds

    await eventually(far_beyond_one_lease)


async def test_leases_come_back_after_redis_lost_its_memory(
    redis_server: RedisServer, log: ActivityLog, keeper: LeaseKeeper
) -> None:
    ws = uuid4()
    keeper.take(ws, ttl_seconds=TTL)
    await connections(log, ws, 1)
    redis_server.flush()
    await connections(log, ws, 1)
    redis_server.kill()
    redis_server.start()
    await connections(log, ws, 1)


async def test_an_outage_is_reported_and_nothing_said_in_it_is_lost(
    redis_server: RedisServer, log: ActivityLog, keeper: LeaseKeeper
) -> None:
    before, during, touched = uuid4(), uuid4(), uuid4()
    lease = keeper.take(before, ttl_seconds=TTL)
    await connections(log, before, 1)
    assert keeper.unreachable_for_seconds == 0.0

    redis_server.kill()
    await eventually(lambda: keeper.unreachable_for_seconds > 0.2)
    keeper.release(lease)
    keeper.take(during, ttl_seconds=TTL)
    keeper.touch(touched, ttl_seconds=TTL)
    assert keeper.in_use().keys() == {before, during, touched}
    assert keeper.in_use()[during] == TTL + log.lease_seconds

    redis_server.start()
    await connections(log, during, 1)
    assert keeper.unreachable_for_seconds == 0.0
    activities = await log.read_many([before, touched])
    assert activities[before].connections == 0
    assert all(activity.in_use for activity in activities.values())
    assert keeper.in_use().keys() == {during}


async def test_an_idle_proxy_notices_that_redis_has_gone_and_come(
    redis_server: RedisServer, keeper: LeaseKeeper
) -> None:
    redis_server.kill()
    await eventually(lambda: keeper.unreachable_for_seconds > 0)
    redis_server.start()
    await eventually(lambda: keeper.unreachable_for_seconds == 0)


async def test_short_requests_cost_touches(
    redis_server: RedisServer, log: ActivityLog, keeper: LeaseKeeper
) -> None:
    ws = uuid4()
    for _ in range(1000):
        keeper.release(keeper.take(ws, ttl_seconds=TTL))

    async def busy() -> bool:
        return (await read_one(log, ws)).in_use

    await eventually(busy)
    with redis_server.admin as admin:
        assert not admin.exists(f"ws_conn:{ws}")
    assert (await read_one(log, ws)).connections == 0


async def test_the_last_touch_of_a_burst_is_told(log: ActivityLog, keeper: LeaseKeeper) -> None:
    ws = uuid4()
    keeper.touch(ws, ttl_seconds=1.0)

    async def told() -> bool:
        return (await read_one(log, ws)).last_seen_at is not None

    await eventually(told)
    first = (await read_one(log, ws)).last_seen_at
    assert first is not None
    keeper.touch(ws, ttl_seconds=1.0)  # too soon to be worth a call of its own

    async def told_again() -> bool:
        seen = (await read_one(log, ws)).last_seen_at
        return seen is not None and seen > first

    await eventually(told_again)


async def test_closing_releases_everything(log: ActivityLog) -> None:
    keeper = LeaseKeeper(log)
    keeper.start()
    told, untold = uuid4(), uuid4()
    keeper.take(told, ttl_seconds=TTL)
    await connections(log, told, 1)
    keeper.take(untold, ttl_seconds=TTL)
    await keeper.close()
    activities = await log.read_many([told, untold])
    assert all(activity.connections == 0 and activity.in_use for activity in activities.values())


async def test_closing_without_redis_ends(redis_server: RedisServer, log: ActivityLog) -> None:
    keeper = LeaseKeeper(log)
    keeper.start()
    keeper.take(uuid4(), ttl_seconds=TTL)
    redis_server.kill()
    await keeper.close()
