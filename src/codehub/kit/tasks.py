"""Cancel and finish asyncio tasks safely."""

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
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
