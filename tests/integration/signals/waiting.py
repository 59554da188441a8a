"""Waiting for a condition, with a deadline: how these tests wait for Redis to come, go and expire."""

import asyncio
from collections.abc import Awaitable, Callable
from inspect import isawaitable


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]],
    *,
    timeout: float = 20.0,
    what: str = "condition",
) -> None:
    deadline = asyncio.get_running_loop().time() + timeout
    while True:
        outcome = condition()
        if await outcome if isawaitable(outcome) else outcome:
            return
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"did not come true in {timeout} s: {what}")
        await asyncio.sleep(0.01)
