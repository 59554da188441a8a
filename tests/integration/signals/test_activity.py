"""Activity in Redis: leases that cannot leak, a timer that outlives them, and a memory that knows its age."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from codehub.domain.ttl import Activity
from codehub.signals.activity import ActivityKind, ActivityLog, Ended, Lease, Touch
from codehub.signals.connection import RedisLink, RedisUnavailable
from tests.support.redis import RedisServer
from tests.support.waiting import until

TTL = 300.0


@pytest.fixture
def log(redis_link: RedisLink) -> ActivityLog:
    return ActivityLog(redis_link)


def between(value: timedelta | None, low: float, high: float) -> bool:
    return value is not None and low < value.total_seconds() <= high


async def read_one(log: ActivityLog, workspace_id: UUID) -> Activity:
    return (await log.read_many([workspace_id]))[workspace_id]


async def test_an_unknown_workspace_is_idle(log: ActivityLog) -> None:
    assert replace(await read_one(log, uuid4()), memory_age=timedelta.max) == Activity()


async def test_open_connections_are_counted_and_the_last_one_starts_the_timer(log: ActivityLog) -> None:
    ws = uuid4()
    await log.take(ws, "a", ttl_seconds=TTL)
    await log.take(ws, "b", ttl_seconds=TTL)
    both = await read_one(log, ws)
    assert both.connections == 2
    assert between(both.idle_timer, TTL + 60, TTL + 90)
    assert both.kind == ActivityKind.WEBSOCKET
    assert both.last_seen_at is not None

    await log.release(ws, "a", ttl_seconds=TTL)
    one = await read_one(log, ws)
    assert one.connections == 1
    assert between(one.idle_timer, TTL + 60, TTL + 90)

    await log.release(ws, "b", ttl_seconds=TTL)
    none = await read_one(log, ws)
    assert none.connections == 0
    assert between(none.idle_timer, TTL - 60, TTL)


async def test_requests_keep_awake_and_are_no_connections(log: ActivityLog) -> None:
    ws = uuid4()
    await log.take(ws, "requests", ttl_seconds=TTL, kind=ActivityKind.HTTP)
    loading = await read_one(log, ws)
    assert (loading.connections, loading.requests, loading.kind) == (0, 1, ActivityKind.HTTP)
    assert loading.is_reported
    await log.take(ws, "socket", ttl_seconds=TTL)
    await log.release(ws, "requests", ttl_seconds=TTL, kind=ActivityKind.HTTP)
    working = await read_one(log, ws)
    assert (working.connections, working.requests, working.kind) == (1, 0, ActivityKind.WEBSOCKET)
    await log.release(ws, "socket", ttl_seconds=TTL)
    await log.touch(ws, TTL)
    assert (await read_one(log, ws)).kind == ActivityKind.HTTP
    await log.take(ws, "requests", ttl_seconds=TTL, kind=ActivityKind.HTTP)
    await log.release(ws, "requests", ttl_seconds=TTL, kind=ActivityKind.HTTP)
    over = await read_one(log, ws)
    assert (over.connections, over.requests, over.kind) == (0, 0, ActivityKind.HTTP)


async def test_everything_may_be_said_twice(log: ActivityLog) -> None:
    ws = uuid4()
    for _ in range(2):
        await log.take(ws, "a", ttl_seconds=TTL)
    assert (await read_one(log, ws)).connections == 1
    for _ in range(2):
        await log.release(ws, "a", ttl_seconds=TTL)
    activity = await read_one(log, ws)
    assert activity.connections == 0
    assert between(activity.idle_timer, TTL - 60, TTL)


async def test_a_lease_not_renewed_expires_and_the_timer_runs_on(redis_link: RedisLink) -> None:
    log = ActivityLog(redis_link, lease_seconds=0.2)
    ws = uuid4()
    await log.take(ws, "of a proxy that died", ttl_seconds=TTL)

    async def expired() -> bool:
        return (await read_one(log, ws)).connections == 0

    await until(expired)
    assert between((await read_one(log, ws)).idle_timer, TTL - 60, TTL + 0.2)


async def test_one_lease_expires_while_another_is_renewed(redis_link: RedisLink) -> None:
    short, long = ActivityLog(redis_link, lease_seconds=0.2), ActivityLog(redis_link, lease_seconds=90)
    ws = uuid4()
    await long.take(ws, "alive", ttl_seconds=TTL)
    await short.take(ws, "dead", ttl_seconds=TTL)

    async def only_one_left() -> bool:
        await long.write(leases=[Lease("alive", ws, TTL)])
        return (await read_one(long, ws)).connections == 1

    await until(only_one_left)


async def test_the_timer_runs_out(log: ActivityLog) -> None:
    ws = uuid4()
    await log.touch(ws, 0.2, ActivityKind.START)
    started = await read_one(log, ws)
    assert started.kind == ActivityKind.START

    async def idle() -> bool:
        return not (await read_one(log, ws)).is_reported

    await until(idle)
    assert (await read_one(log, ws)).last_seen_at == started.last_seen_at  # people still see when


async def test_a_request_never_shortens_the_timer_of_an_open_connection(log: ActivityLog) -> None:
    ws = uuid4()
    await log.take(ws, "a", ttl_seconds=TTL)
    await log.touch(ws, TTL)
    assert between((await read_one(log, ws)).idle_timer, TTL + 60, TTL + 90)


async def test_a_belated_release_does_not_shorten_later_activity(log: ActivityLog) -> None:
    ws = uuid4()
    await log.take(ws, "a", ttl_seconds=TTL)
    await log.write(ended=[Ended(Lease("a", ws, TTL), age_seconds=200)])
    assert between((await read_one(log, ws)).idle_timer, TTL - 60, TTL)


async def test_old_news_counts_from_when_it_happened(log: ActivityLog) -> None:
    recent, ancient = uuid4(), uuid4()
    await log.write(touches=[Touch(recent, TTL, age_seconds=100), Touch(ancient, TTL, age_seconds=400)])
    assert between((await read_one(log, recent)).idle_timer, TTL - 160, TTL - 100)
    assert not (await read_one(log, ancient)).is_reported


async def test_a_release_long_ago_leaves_no_timer(log: ActivityLog) -> None:
    ws = uuid4()
    await log.write(ended=[Ended(Lease("a", ws, TTL), age_seconds=400)])
    assert not (await read_one(log, ws)).is_reported


async def test_a_ttl_of_zero_is_no_error(log: ActivityLog) -> None:
    ws = uuid4()
    await log.take(ws, "a", ttl_seconds=0)
    await log.touch(ws, 0)
    assert (await read_one(log, ws)).is_reported
    await log.release(ws, "a", ttl_seconds=0)
    assert not (await read_one(log, ws)).is_reported


async def test_thousands_are_read_at_once(log: ActivityLog) -> None:
    ids = [uuid4() for _ in range(3000)]
    await log.write(leases=[Lease("a", each, TTL) for each in ids[::2]])
    reading = await log.read(ids)
    assert [reading.activities[each].connections for each in ids] == [1, 0] * 1500


async def test_the_same_memory_is_recognised_and_ages(log: ActivityLog) -> None:
    first = await log.identity()

    async def older() -> bool:
        return (await log.identity()).age_seconds > first.age_seconds

    await until(older)
    again = await log.identity()
    assert (again.run_id, again.epoch) == (first.run_id, first.epoch)


async def _flush(server: RedisServer) -> None:
    server.flush()


async def _restart(server: RedisServer) -> None:
    server.kill()
    server.start()


async def _fail_over(server: RedisServer) -> None:
    """A promoted replica, or a restart from an old snapshot: the keys are there, the process is another."""
    with server.admin as admin:
        admin.hset("codehub:epoch", "run_id", "0" * 40)


@pytest.mark.parametrize("accident", [_flush, _restart, _fail_over])
async def test_a_lost_memory_is_noticed(
    redis_server: RedisServer, log: ActivityLog, accident: Callable[[RedisServer], Awaitable[None]]
) -> None:
    before = await log.identity()

    async def older() -> bool:
        return (await log.identity()).age_seconds > 0.1

    await until(older)
    await accident(redis_server)
    after = await log.identity()
    assert (after.run_id, after.epoch) != (before.run_id, before.epoch)
    assert after.age_seconds < 0.1
    assert (await log.identity()).epoch == after.epoch


async def test_a_renewal_after_a_flush_brings_the_lease_back(
    redis_server: RedisServer, log: ActivityLog
) -> None:
    ws = uuid4()
    await log.take(ws, "a", ttl_seconds=TTL)
    redis_server.flush()
    await log.write(leases=[Lease("a", ws, TTL)])
    assert (await read_one(log, ws)).connections == 1


async def test_scripts_are_loaded_again_after_a_restart(redis_server: RedisServer, log: ActivityLog) -> None:
    ws = uuid4()
    await log.take(ws, "a", ttl_seconds=TTL)
    redis_server.kill()
    redis_server.start()
    await log.take(ws, "a", ttl_seconds=TTL)
    assert (await read_one(log, ws)).connections == 1


async def test_no_answer_is_never_idle(redis_server: RedisServer, log: ActivityLog) -> None:
    redis_server.kill()
    with pytest.raises(RedisUnavailable):
        await log.read_many([uuid4()])
    with pytest.raises(RedisUnavailable):
        await log.take(uuid4(), "a", ttl_seconds=TTL)


async def test_the_latest_input_counts_however_late_it_is_reported(log: ActivityLog) -> None:
    ws = uuid4()
    await log.write(leases=[Lease("tab", ws, TTL)])
    assert (await read_one(log, ws)).input_age is None
    await log.write(leases=[Lease("tab", ws, TTL, input_age_seconds=30)])
    await log.write(touches=[Touch(ws, TTL, input_age_seconds=500)])
    await log.write(ended=[Ended(Lease("other", ws, TTL, input_age_seconds=900))])
    age = (await read_one(log, ws)).input_age
    assert age is not None
    assert timedelta(seconds=30) <= age < timedelta(seconds=400)
