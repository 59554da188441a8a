"""Thread pool of the local runtime: its slow disk must not block DNS or hashing."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

from codehub.kit.threads import in_executor

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Runs short blocking work: files, ``/proc``, one fork. The loop does the waiting."""

    def __init__(self, *, size: int = 8) -> None:
        self._pool = ThreadPoolExecutor(max_workers=size, thread_name_prefix="codehub-local")

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await in_executor(self._pool, partial(work, *args, **kwargs))

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
