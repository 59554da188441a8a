"""Cancel and finish asyncio tasks safely."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

T = TypeVar("T")


async def cancel_and_wait(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel all tasks, then wait until each has ended."""
    pending = [task for task in tasks if not task.done()]
    for task in pending:
        task.cancel()
    for task in pending:
        with suppress(asyncio.CancelledError, Exception):
            await task


@contextmanager
def keep_cancellation() -> Iterator[None]:
    """Raise a cancellation of this task that what runs inside has swallowed.

    ``asyncio.wait_for`` of Python 3.11 loses one that comes together with its result, and redis-py waits by it for
    every command it sends. A loop then goes on for ever, and so does whoever waits for its end.
    """
    task = asyncio.current_task()
    assert task is not None
    before = task.cancelling()
    try:
        yield
    finally:
        if task.cancelling() > before:
            raise asyncio.CancelledError


async def finish(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end even if the caller is cancelled, then raise that.

    For the short write after an effect: cancelling it would lose the connection it runs on.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        with suppress(Exception):
            await asyncio.wait({task})
        raise
