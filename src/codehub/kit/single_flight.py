"""Run one call per key at a time, however many ask for it.

Whoever asks while a call is under way shares its result. The call belongs to nobody in particular: an asker
that is cancelled leaves it to the others, and it ends even if all of them have left.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from codehub.kit.tasks import cancel_and_wait

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlight(Generic[K, V]):
    def __init__(self) -> None:
        self._calls: dict[K, asyncio.Task[V]] = {}

    def is_running(self, key: K) -> bool:
        return key in self._calls

    async def run(self, key: K, call: Callable[[], Awaitable[V]]) -> V:
        """The result of the call under way, or of a new one. Raises what the call raised."""
        task = self._calls.get(key)
        if task is None:
            task = self._calls[key] = asyncio.create_task(_call(call))
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def forget(self, key: K) -> None:
        """Share the call under way with nobody else: who asks from now on gets a new one."""
        self._calls.pop(key, None)

    def forget_all(self) -> None:
        self._calls.clear()

    async def close(self) -> None:
        await cancel_and_wait(list(self._calls.values()))

    def _ended(self, key: K, task: "asyncio.Task[V]") -> None:
        if self._calls.get(key) is task:
            del self._calls[key]
        if not task.cancelled():
            task.exception()  # askers have it; perhaps nobody asks any more


async def _call(call: Callable[[], Awaitable[V]]) -> V:
    return await call()
