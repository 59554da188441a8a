"""Waiting in tests: for a condition with a deadline, never for an amount of time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def until(
    condition: Callable[[], Awaitable[T]], *, seconds: float = 20.0, what: str = "condition"
) -> T:
    """The first true answer of ``condition``."""
    deadline = time.monotonic() + seconds
    while not (answer := await condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds:g} s; last answer: {answer!r}")
        await asyncio.sleep(0.01)
    return answer
