"""Waiting in tests: for a condition with a deadline, never for an amount of time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeVar, overload

T = TypeVar("T")


@overload
async def until(
    condition: Callable[[], Awaitable[T]], *, seconds: float = ..., what: str = ..., every: float = ...
) -> T: ...


@overload
async def until(
    condition: Callable[[], T], *, seconds: float = ..., what: str = ..., every: float = ...
) -> T: ...


async def until(
    condition: Callable[[], Any], *, seconds: float = 20.0, what: str = "condition", every: float = 0.01
) -> Any:
    """Return the first true answer of ``condition``, which may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while not (answer := await _ask(condition)):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {seconds:g} s; last answer: {answer!r}")
        await asyncio.sleep(every)
    return answer


async def _ask(condition: Callable[[], Any]) -> Any:
    answer = condition()
    return await answer if isawaitable(answer) else answer
