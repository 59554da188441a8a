"""Retry inside one storage job while the object store fails.

An outage of a minute must not cost an operation one of its three executions. Errors that are not the store's
(tar failed, no space, data lost) are not retried here.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from codehub.domain.errors import EffectError, FailureCode

TRANSIENT = frozenset({FailureCode.S3_ACCESS_ERROR, FailureCode.READ_BACK_MISMATCH})

T = TypeVar("T")


async def with_retries(attempt: Callable[[], Awaitable[T]], *, delays: Sequence[float]) -> T:
    """Call ``attempt`` once and again after each delay; raises the last error."""
    for delay in delays:
        try:
            return await attempt()
        except EffectError as error:
            if error.failure not in TRANSIENT:
                raise
            print(f"trying again in {delay:g} s: {error.message}", file=sys.stderr, flush=True)  # noqa: T201
        await asyncio.sleep(delay)
    return await attempt()
