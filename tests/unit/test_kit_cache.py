"""The cache and the single flight every package uses."""

import asyncio

import pytest

from codehub.kit.cache import TtlCache
from codehub.kit.single_flight import SingleFlight


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_entry_expires() -> None:
    clock = Clock()
    cache: TtlCache[str, int] = TtlCache(size=10, ttl=2.0, clock=clock)
    cache.put("a", 1)
    cache.put("b", 2, ttl=5.0)
    clock.now += 2.0
    assert (cache.get("a"), cache.get("b")) == (None, 2)
    cache.expire()
    assert list(cache) == ["b"]


def test_none_is_a_value_like_others() -> None:
    cache: TtlCache[str, None] = TtlCache(size=1)
    assert cache.peek("a") is None
    cache.put("a", None)
    entry = cache.peek("a")
    assert entry is not None
    assert entry.value is None


def test_the_entry_written_longest_ago_goes_first() -> None:
    cache: TtlCache[int, int] = TtlCache(size=2)
    for key in (1, 2, 1, 3):
        cache.put(key, key)
    assert list(cache) == [1, 3]


def test_forgetting() -> None:
    cache: TtlCache[int, int] = TtlCache(size=10)
    for key in range(4):
        cache.put(key, key % 2)
    cache.forget(0)
    cache.forget_where(lambda value: value == 1)
    assert list(cache) == [2]
    cache.clear()
    assert len(cache) == 0


class Slow:
    """A call that waits to be let go, and counts how often it was made."""

    def __init__(self) -> None:
        self.calls = 0
        self.go = asyncio.Event()

    async def __call__(self) -> int:
        self.calls += 1
        mine = self.calls
        await self.go.wait()
        return mine


async def test_whoever_asks_during_a_call_shares_it() -> None:
    flight: SingleFlight[str, int] = SingleFlight()
    slow = Slow()
    askers = [asyncio.create_task(flight.run("a", slow)) for _ in range(3)]
    await asyncio.sleep(0)
    assert flight.is_running("a")
    slow.go.set()
    assert [await each for each in askers] == [1, 1, 1]
    assert not flight.is_running("a")
    assert await flight.run("a", slow) == 2


async def test_an_asker_that_leaves_takes_nothing_from_the_others() -> None:
    flight: SingleFlight[str, int] = SingleFlight()
    slow = Slow()
    first, second = (asyncio.create_task(flight.run("a", slow)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    slow.go.set()
    assert await second == 1


async def test_a_forgotten_call_is_shared_with_nobody_else() -> None:
    flight: SingleFlight[str, int] = SingleFlight()
    slow = Slow()
    before = asyncio.create_task(flight.run("a", slow))
    await asyncio.sleep(0)
    flight.forget("a")
    after = asyncio.create_task(flight.run("a", slow))
    await asyncio.sleep(0)
    slow.go.set()
    assert (await before, await after) == (1, 2)


async def test_an_error_reaches_every_asker_and_is_not_kept() -> None:
    flight: SingleFlight[str, int] = SingleFlight()

    async def fails() -> int:
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await flight.run("a", fails)


async def test_closing_cancels_what_is_under_way() -> None:
    flight: SingleFlight[str, int] = SingleFlight()
    asker = asyncio.create_task(flight.run("a", Slow()))
    await asyncio.sleep(0)
    await flight.close()
    with pytest.raises(asyncio.CancelledError):
        await asker
