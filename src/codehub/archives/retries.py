"""Trying again inside one storage job, while the object store falters.

A hiccup of a minute must not cost an operation one of its three executions. What is not the store's
mood (tar failed, no space, data lost) is not tried again here.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from codehub.domain.errors import EffectError, FailureCode

TRANSIENT = frozenset({FailureCode.S3_ACCESS_ERROR, FailureCode.READ_BACK_MISMATCH})

T = TypeVar("T")


async def with_retries(attempt: Callable[[], Awaitable[T]], *, delays: Sequence[float]) -> T:
    """The result of ``attempt``, tried once and then once more after each delay. The last error counts."""
    for delay in delays:
        try:
            return await attempt()
        except EffectError as error:
            if error.failure not in TRANSIENT:
                raise
            print(f"trying again in {delay:g} s: {error.message}", file=sys.stderr, flush=True)  # noqa: T201
        await asyncio.sleep(delay)
    return await attempt()
