"""Blocking work in threads, without leaving a thread behind.

``asyncio.to_thread`` lets go of its thread when the caller is cancelled: the thread goes on, and writes
to a file that clean-up has already closed, or worse, to whatever got its descriptor number next. Here a
cancelled caller first waits for the thread to come back.
"""

import asyncio
import threading
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
    produce: Callable[[], bytes], *, unblock: Callable[[], None], ahead: int = 1
) -> AsyncGenerator[bytes, None]:
    """Pieces made by a blocking ``produce`` (empty: the end), ``ahead`` of them before the reader asks.

    So the next pieces are compressed while this one is uploaded, and never more than ``ahead`` and the
    reader's own exist. One thread calls ``produce`` again and again without asking the event loop in
    between: on a busy machine the loop takes milliseconds to answer, and what ``produce`` drives would stand
    still. Close it (``aclosing``) when leaving early.
    """
    loop = asyncio.get_running_loop()
    made: asyncio.Queue[bytes] = asyncio.Queue()
    free_places = threading.Semaphore(ahead)
    reader_left = threading.Event()

    def work() -> None:
        try:
            while True:
                free_places.acquire()
                if reader_left.is_set() or not (piece := produce()):
                    return
                loop.call_soon_threadsafe(made.put_nowait, piece)
        finally:
            loop.call_soon_threadsafe(made.put_nowait, b"")

    worker = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while piece := await made.get():
            free_places.release()
            yield piece
        await asyncio.shield(worker)  # raises what ``produce`` raised
    finally:
        reader_left.set()
        free_places.release()
        if not worker.done():
            unblock()
        await _settle(worker)


async def _settle(task: "asyncio.Future[T]") -> None:
    """Wait until ``task`` is over, however it ends; a second cancellation does not cut this short."""
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue
    if not task.cancelled():
        task.exception()  # looked at, so that nobody reports it as forgotten
