"""Run blocking work in threads and wait for its end even when cancelled.

A thread cannot be cancelled. ``asyncio.to_thread`` abandons it when the caller is cancelled: the thread goes
on while the caller releases the lock or closes the file it uses. Here a cancelled caller first waits for the
end of the work it began. So the work must be short, or something must make it return.
"""

import asyncio
import contextvars
from collections.abc import Callable
from concurrent.futures import Executor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``work`` to its end in a thread of the loop's default pool."""
    context = contextvars.copy_context()
    return await in_executor(None, partial(context.run, work, *args, **kwargs))


async def in_executor(
    executor: Executor | None, work: Callable[[], T], *, unblock: Callable[[], None] | None = None
) -> T:
    """Run ``work`` to its end in ``executor``.

    When cancelled, ``unblock`` is called to make it return sooner.
    """
    future = asyncio.get_running_loop().run_in_executor(executor, work)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if unblock is not None:
            unblock()
        await wait_for_end(future)
        raise


async def wait_for_end(future: "asyncio.Future[T]") -> None:
    """Wait until ``future`` is done, however often this task is cancelled.

    Its outcome is ignored.
    """
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            continue
    if not future.cancelled():
        future.exception()  # marks it as retrieved, so that asyncio does not report it
