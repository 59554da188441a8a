"""Short blocking work beside the event loop.

A thread cannot be cancelled. If the caller were let go while its thread still works, the lock would be
given back under that thread's hands; so a cancelled caller waits for the end of the piece of work it
began. Pieces are therefore short (files, ``/proc``, one fork); whatever waits, waits in the loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """A pool of its own: a slow disk here must not stop DNS or hashing elsewhere."""

    def __init__(self, *, size: int = 8) -> None:
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="codehub-local")

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        future = asyncio.get_running_loop().run_in_executor(self._pool, partial(work, *args, **kwargs))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await to_the_end(future)
            raise

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


async def to_the_end(future: asyncio.Future[T]) -> None:
    """Wait until it is done, however often somebody cancels us meanwhile. Its outcome is not looked at."""
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue
    if not future.cancelled():
        future.exception()  # looked at, so that asyncio does not complain
