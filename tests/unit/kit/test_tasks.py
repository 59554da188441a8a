"""A cancellation is never lost, whatever a library does with it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from codehub.kit.tasks import keep_cancellation
from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.outage import Outage


class Swallowing:
    """Waits, and takes its first cancellation for an answer."""

    def __init__(self, error: Exception | None = None) -> None:
        self.waits = asyncio.Event()
        self._error = error
        self._swallowed = False

    async def __call__(self) -> None:
        self.waits.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self._swallowed:
                raise
            self._swallowed = True
            if self._error is not None:
                raise self._error from None


async def cancelled(work: Callable[[], Awaitable[None]], swallowing: Swallowing) -> bool:
    """Whether a loop over ``work`` ends when it is cancelled once."""

    async def loop() -> None:
        while True:
            await work()

    task = asyncio.ensure_future(loop())
    await swallowing.waits.wait()
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    if not done:
        task.cancel()
    return bool(done) and task.cancelled()


@pytest.mark.parametrize("error", [None, OSError("broken")], ids=["an answer", "an error"])
async def test_a_swallowed_cancellation_is_raised(error: Exception | None) -> None:
    swallowing = Swallowing(error)

    async def work() -> None:
        with keep_cancellation():
            await swallowing()

    assert await cancelled(work, swallowing)


async def test_a_call_of_redis_ends_with_its_task() -> None:
    link, swallowing = RedisLink("redis://127.0.0.1:1"), Swallowing()

    async def work() -> None:
        async with link.bounded(Outage("test")):
            await swallowing()

    assert await cancelled(work, swallowing)
    await link.close()


async def test_a_timeout_stays_one_and_earlier_cancellations_do_not_count() -> None:
    link = RedisLink("redis://127.0.0.1:1")
    with pytest.raises(RedisUnavailable):
        async with link.bounded(Outage("test"), timeout_seconds=0.01):
            await asyncio.Event().wait()

    async def clean_up() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            with keep_cancellation():  # on the way out: this cancellation is known
                return "cleaned up"
        return "not cancelled"

    task = asyncio.ensure_future(clean_up())
    await asyncio.sleep(0)
    task.cancel()
    assert await task == "cleaned up"
    await link.close()
