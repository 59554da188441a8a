"""Many small questions asked in the same moment become one query.

A thousand event streams hear of one change together, and a hundred requests for single workspaces arrive
between two turns of the event loop. ``Batched`` collects the keys that are asked for until the loop comes
round and answers all of them from one load.

The invariant: **an answer comes from a load that began after the question was asked.** So whoever has just
committed something, and then asks, sees it. A key that is asked for while a load is under way waits for the
next one and never shares the earlier.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

Load = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]


class Batched(Generic[K, V]):
    """``load`` gets distinct keys and gives what there is; a key it leaves out is answered None.

    ``max_loads`` loads run at a time: while they do, questions gather, and the next load is larger
    instead of the queue being longer.
    """

    def __init__(self, load: Load[K, V], *, max_batch: int = 500, max_loads: int = 2) -> None:
        self._load = load
        self._max_batch = max_batch
        self._max_loads = max_loads
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._loads: set[asyncio.Task[None]] = set()
        self._scheduled = False

    async def get(self, key: K) -> V | None:
        """Raises what the load raised. Cancelling one asker leaves the others their answer."""
        return await asyncio.shield(self._ask(key))

    async def get_many(self, keys: Iterable[K]) -> dict[K, V]:
        asked = {key: self._ask(key) for key in keys}
        answers = {key: await asyncio.shield(future) for key, future in asked.items()}
        return {key: value for key, value in answers.items() if value is not None}

    def _ask(self, key: K) -> "asyncio.Future[V | None]":
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
        except BaseException as error:  # noqa: BLE001 - whoever asked is told, whatever it was
            for future in batch.values():
                _fail(future, error)
            return
        for key, future in batch.items():
            if not future.done():
                future.set_result(found.get(key))


class Shared(Generic[K, V]):
    """Equal questions asked in the same moment get one answer, for loads that answer one key at a time.

    The invariant is the one above: a question that comes while its key is being loaded waits for the load
    after that. So there is one load for each key at any time, however many ask.
    """

    def __init__(self, load: Callable[[K], Awaitable[V]]) -> None:
        self._load = load
        self._waiting: dict[K, asyncio.Future[V]] = {}
        self._loads: dict[K, asyncio.Task[None]] = {}

    async def get(self, key: K) -> V:
        """Raises what the load raised. Cancelling one asker leaves the others their answer."""
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
            if key not in self._loads:
                self._begin(key)
        return await asyncio.shield(future)

    def _begin(self, key: K) -> None:
        """The load begins when the loop comes round: whoever asks in this turn still shares it."""
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
        except BaseException as error:  # noqa: BLE001 - whoever asked is told, whatever it was
            _fail(future, error)
            return
        if not future.done():
            future.set_result(value)


def _fail(future: "asyncio.Future[V]", error: BaseException) -> None:
    if isinstance(error, asyncio.CancelledError):
        future.cancel()
    elif not future.done():
        future.set_exception(error)
        future.exception()  # an asker that left must not make this an unhandled error
