"""One queue here before the one in the database.

Whoever may take a running place waits for one lock (``store/limits``). Waiting there costs a connection
each: fifty people who press start together would hold all connections of the process, and everything else
it does would wait behind them. So they wait here, holding nothing, and a few at a time go on.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

AT_ONCE = 2  # while one has the lock, the next is on its way to it
PATIENCE_SECONDS = 10.0


class Turns:
    """Of one process; other replicas have their own, and all meet at the database's lock."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def take(self) -> AsyncIterator[None]:
        """In the order of asking. Raises ``TimeoutError`` if it does not come: the database is stuck."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()
