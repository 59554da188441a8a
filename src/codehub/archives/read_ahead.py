"""Read ahead from a blocking producer, in one thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from codehub.kit.threads import wait_for_end

T = TypeVar("T")


async def read_ahead(
    produce: Callable[[], T | None], *, unblock: Callable[[], None], ahead: int = 1
) -> AsyncGenerator[T, None]:
    """Yield pieces of a blocking ``produce`` (empty or None: the end), ``ahead`` in advance.

    So the next pieces are compressed while this one is uploaded, and at most ``ahead`` pieces and the
    reader's own exist. One thread calls ``produce`` in a loop without waiting for the event loop: on a busy
    machine that takes milliseconds, and the process behind ``produce`` would stand still. Close it
    (``aclosing``) when leaving early.
    """
    loop = asyncio.get_running_loop()
    made: asyncio.Queue[T | None] = asyncio.Queue()
    free_slots = threading.Semaphore(ahead)
    reader_left = threading.Event()

    def work() -> None:
        try:
            while True:
                free_slots.acquire()
                if reader_left.is_set() or not (piece := produce()):
                    return
                loop.call_soon_threadsafe(made.put_nowait, piece)
        finally:
            loop.call_soon_threadsafe(made.put_nowait, None)

    worker = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        while piece := await made.get():
            free_slots.release()
            yield piece
        await asyncio.shield(worker)  # raises what ``produce`` raised
    finally:
        reader_left.set()
        free_slots.release()
        if not worker.done():
            unblock()
        await wait_for_end(worker)
