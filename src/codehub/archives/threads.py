"""Blocking work in threads, without leaving a thread behind.

``asyncio.to_thread`` lets go of its thread when the caller is cancelled: the thread goes on, and writes
to a file that clean-up has already closed, or worse, to whatever got its descriptor number next. Here a
cancelled caller first waits for the thread to come back.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def finish_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``work`` to its end. For work that ends by itself soon."""
    task = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _settle(task)
        raise


async def blocking_in_thread(work: Callable[[], T], *, unblock: Callable[[], None]) -> T:
    """Run ``work`` that may block for ever (a pipe); when cancelled, ``unblock`` makes it return."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        unblock()
        await _settle(task)
        raise


async def read_ahead(
    produce: Callable[[], bytes], *, unblock: Callable[[], None]
) -> AsyncGenerator[bytes, None]:
    """Pieces made by a blocking ``produce`` (empty: the end), one ahead of the reader.

    So the next piece is compressed while this one is uploaded, and never more than two exist. Close it
    (``aclosing``) when leaving early.
    """
    pending = asyncio.ensure_future(asyncio.to_thread(produce))
    try:
        while piece := await asyncio.shield(pending):
            pending = asyncio.ensure_future(asyncio.to_thread(produce))
            yield piece
    finally:
        if not pending.done():
            unblock()
            await _settle(pending)


async def _settle(task: "asyncio.Future[T]") -> None:
    """Wait until ``task`` is over, however it ends; a second cancellation does not cut this short."""
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    if not task.cancelled():
        task.exception()  # looked at, so that nobody reports it as forgotten
