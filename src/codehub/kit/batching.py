"""Batch concurrent lookups of single keys into one query.

A thousand event streams receive one change together, and a hundred requests for single workspaces arrive
between two iterations of the event loop. ``Batched`` collects the keys requested within one iteration and
answers all of them from one load.

The invariant: **an answer comes from a load that began after the request.** So a caller that commits and then
reads, reads its own write. A key requested while a load is running waits for the next load and never shares
the earlier one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Load = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]


class Batched(Generic[K, V]):
    """Batch requests for many keys into one load.

    ``load`` gets distinct keys and returns those it found; a key it leaves out is answered None. At most
    ``max_loads`` loads run at a time: meanwhile requests gather, and the next load is larger instead of the
    queue being longer.
    """

    def __init__(self, load: Load[K, V], *, max_batch: int = 500, max_loads: int = 2) -> None:
        self._load = load
        self._max_batch = max_batch
        self._max_loads = max_loads
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def get(self, key: K) -> V | None:
        """Return the value of ``key``, or None. Raises what the load raised.

        Cancelling one caller leaves the others their answer.
        """
        return await asyncio.shield(self._request(key))

    async def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        """Return the values found, by key. Raises what the load raised."""
        futures = {key: self._request(key) for key in keys}
        answers = {key: await asyncio.shield(future) for key, future in futures.items()}
        return {key: value for key, value in answers.items() if value is not None}

    def _request(self, key: K) -> "asyncio.Future[V | None]":
        future = self._waiting.get(key)
        if future is None:
            loop = asyncio.get_running_loop()
            future = self._waiting[key] = loop.create_future()
            if not self._scheduled:
                self._scheduled = True
                loop.call_soon(self._dispatch)
        return future

    def _dispatch(self) -> None:
        self._scheduled = False
        while self._waiting and len(self._loads) < self._max_loads:
            keys = list(self._waiting)[: self._max_batch]
            batch = {key: self._waiting.pop(key) for key in keys}
            task = asyncio.get_running_loop().create_task(self._answer(batch))
            self._loads.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._loads.discard(task)
        self._dispatch()

    async def _answer(self, batch: "dict[K, asyncio.Future[V | None]]") -> None:
        try:
            found = await self._load(list(batch))
        except BaseException as error:  # noqa: BLE001 - the callers get it, whatever it was
            for future in batch.values():
                _fail(future, error)
            return
        for key, future in batch.items():
            if not future.done():
                future.set_result(found.get(key))


class Shared(Generic[K, V]):
    """Share one load among concurrent requests for the same key.

    For loads that answer one key at a time. The invariant is that of the module: a request that arrives while
    its key is being loaded waits for the load after that. So there is at most one load per key at any time.
    """

    def __init__(self, load: Callable[[K], Awaitable[V]]) -> None:
        self._load = load
        self._waiting: dict[K, asyncio.Future[V]] = {}
        self._loads: dict[K, asyncio.Task[None]] = {}

    async def get(self, key: K) -> V:
        """Return the value of ``key``. Raises what the load raised.

        Cancelling one caller leaves the others their answer.
        """
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            if key not in self._loads:
                self._begin(key)
        return await asyncio.shield(future)

    def _begin(self, key: K) -> None:
        """Start the load in the next loop iteration: requests of this iteration share it."""
        task = asyncio.get_running_loop().create_task(self._answer(key))
        self._loads[key] = task
        task.add_done_callback(lambda _: self._ended(key))

    def _ended(self, key: K) -> None:
        del self._loads[key]
        if key in self._waiting:
            self._begin(key)

    async def _answer(self, key: K) -> None:
        future = self._waiting.pop(key)
        try:
            value = await self._load(key)
        except BaseException as error:  # noqa: BLE001 - the callers get it, whatever it was
            _fail(future, error)
            return
        if not future.done():
            future.set_result(value)


def _fail(future: "asyncio.Future[V]", error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    elif not future.done():
        future.set_exception(error)
        future.exception()  # marks it as retrieved: a cancelled caller must not make this an unhandled error
