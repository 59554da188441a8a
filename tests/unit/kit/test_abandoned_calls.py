"""Shared calls whose callers have all left: a failure after that is nobody's news, and no traceback either."""

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from codehub.kit.batching import Batched
from codehub.kit.single_flight import SingleFlight

Fail = Callable[[], Awaitable[int]]


def single_flight(fail: Fail) -> Awaitable[int]:
    return SingleFlight[str, int]().run("key", fail)


async def batched(fail: Fail) -> int:
    async def load(_: object) -> dict[str, int]:
        return {"key": await fail()}

    return await Batched[str, int](load).get("key") or 0


@pytest.mark.parametrize("share", [single_flight, batched])
async def test_a_failure_after_the_last_caller_left_is_not_reported(
    share: Callable[[Fail], Awaitable[int]],
) -> None:
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    began, may_fail, failed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def fail() -> int:
        began.set()
        await may_fail.wait()
        failed.set()
        raise ConnectionResetError("the database ended the session")

    caller = asyncio.ensure_future(share(fail))
    await began.wait()
    caller.cancel()
    await asyncio.wait({caller})
    del caller  # it holds what it waited for
    may_fail.set()
    await failed.wait()
    for _ in range(5):  # until its callbacks have run
        await asyncio.sleep(0)
    gc.collect()  # what was not retrieved is reported when it is collected
    assert reported == []
