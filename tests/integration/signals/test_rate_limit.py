"""At most so many in any window: together over Redis, each for itself without it."""

import asyncio
from uuid import uuid4

import pytest

from codehub.signals.connection import RedisLink
from codehub.signals.rate_limit import LocalRateLimit, RateLimit, SharedRateLimit
from tests.support.redis import RedisServer
from tests.support.waiting import until


@pytest.fixture(params=["redis", "local", "redis is away"])
def limit(request: pytest.FixtureRequest) -> RateLimit:
    if request.param == "local":
        return LocalRateLimit()
    limit = SharedRateLimit(request.getfixturevalue("redis_link"))
    if request.param == "redis is away":
        request.getfixturevalue("redis_server").kill()
    return limit


async def hits(limit: RateLimit, key: str, count: int, *, window: float = 60) -> list[float | None]:
    return [await limit.hit(key, limit=5, window_seconds=window) for _ in range(count)]


async def test_the_sixth_is_refused_and_told_when_to_return(limit: RateLimit) -> None:
    key = uuid4().hex
    outcomes = await hits(limit, key, 6)
    assert outcomes[:5] == [None] * 5
    assert outcomes[5] is not None
    assert 0 < outcomes[5] <= 60


async def test_keys_do_not_disturb_each_other(limit: RateLimit) -> None:
    await hits(limit, "one", 6)
    assert await hits(limit, "two", 5) == [None] * 5


async def test_looking_does_not_count(limit: RateLimit) -> None:
    key = uuid4().hex
    for _ in range(10):
        assert await limit.peek(key, limit=5, window_seconds=60) is None
    await hits(limit, key, 5)
    assert await limit.peek(key, limit=5, window_seconds=60) is not None


async def test_a_reset_forgets(limit: RateLimit) -> None:
    key = uuid4().hex
    await hits(limit, key, 6)
    await limit.reset(key)
    assert await hits(limit, key, 5) == [None] * 5


async def test_forgiving_takes_back_one(limit: RateLimit) -> None:
    key = uuid4().hex
    await hits(limit, key, 5)
    await limit.forgive(key)
    first, second = await hits(limit, key, 2)
    assert first is None
    assert second is not None


async def test_the_window_passes(limit: RateLimit) -> None:
    key = uuid4().hex
    assert (await hits(limit, key, 6, window=0.3))[5] is not None

    async def free_again() -> bool:
        return await limit.peek(key, limit=5, window_seconds=0.3) is None

    await until(free_again)


async def test_many_at_once_never_pass_the_limit(limit: RateLimit) -> None:
    key = uuid4().hex
    outcomes = await asyncio.gather(*(limit.hit(key, limit=5, window_seconds=60) for _ in range(50)))
    assert sum(outcome is None for outcome in outcomes) == 5


async def test_replicas_count_together(redis_server: RedisServer, redis_link: RedisLink) -> None:
    other_link = RedisLink(redis_server.url)
    try:
        one, other = SharedRateLimit(redis_link), SharedRateLimit(other_link)
        await hits(one, "account", 5)
        assert await other.hit("account", limit=5, window_seconds=60) is not None
    finally:
        await other_link.close()


async def test_names_of_people_are_not_kept_in_redis(
    redis_server: RedisServer, redis_link: RedisLink
) -> None:
    await hits(SharedRateLimit(redis_link), "account:somebody", 1)
    with redis_server.admin as admin:
        assert admin.keys("codehub:rate:*")
        assert not admin.keys("*somebody*")


async def test_the_local_memory_is_bounded() -> None:
    limit = LocalRateLimit(max_keys=10)
    for number in range(100):
        await limit.hit(f"key {number}", limit=1, window_seconds=60)
    assert await limit.peek("key 99", limit=1, window_seconds=60) is not None
    assert await limit.peek("key 0", limit=1, window_seconds=60) is None
