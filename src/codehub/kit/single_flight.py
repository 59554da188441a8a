"""Run one call per key at a time and share its result among all callers.

The call belongs to no caller: one that is cancelled leaves it to the others, and the call ends even if all of
them have left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from codehub.kit.tasks import cancel_and_wait

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    """The calls running at the moment, by key."""

    def __init__(self) -> None:
        self._calls: dict[K, asyncio.Task[V]] = {}

    def is_running(self, key: K) -> bool:
        return key in self._calls

    async def run(self, key: K, call: Callable[[], Awaitable[V]]) -> V:
        """Return the result of the running call, or of a new one. Raises what it raised."""
        task = self._calls.get(key)
        if task is None:
            task = self._calls[key] = asyncio.create_task(_call(call))
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def forget(self, key: K) -> None:
        """Stop sharing the running call: later callers start a new one."""
        self._calls.pop(key, None)

    def forget_all(self) -> None:
        self._calls.clear()

    async def close(self) -> None:
        await cancel_and_wait(list(self._calls.values()))

    def _ended(self, key: K, task: "asyncio.Task[V]") -> None:
        if self._calls.get(key) is task:
            del self._calls[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved: all callers may have left


async def _call(call: Callable[[], Awaitable[V]]) -> V:
    return await call()
