"""Blocking producers read ahead of their consumer, in one thread."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable

from codehub.kit.threads import wait_for_end


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
        await wait_for_end(worker)
