"""Feed live events from PostgreSQL while Redis is away.

Changes reach browsers over Redis so that one event listener serves any number of replicas. Without Redis they
would reach none: every page would show old state for as long as the outage lasts. So each process with
browsers then opens one connection of its own, LISTENs to the channel of the event listener, and dispatches
the changes to the same feed.

The order is the event listener's: LISTEN, then a resync for all readers, then consume. When Redis is back the
feed's own subscription resyncs all readers once more, and only then is the connection here closed: a change
in between is delivered at least once (readers compare versions). Progress is not delivered: it is not in the
database.
"""

import asyncio
from contextlib import suppress

import structlog

from codehub.kit.tasks import cancel_and_wait
from codehub.signals.feed import LiveFeed
from codehub.signals.notify import ChangeListener, FeedLost

log = structlog.get_logger(__name__)

GRACE_SECONDS = 0.2
"""A subscription that reconnects at once, and the first one of a process, needs no fallback."""

RETRY_SECONDS = 0.5
POLL_SECONDS = 0.5


class PostgresFallback:
    """One task beside a feed. Costs nothing but a flag while Redis is there."""

    def __init__(self, feed: LiveFeed, *, dsn: str) -> None:
        self._feed = feed
        self._dsn = dsn
        self._task: asyncio.Task[None] | None = None
        self.listening = False

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="postgres fallback")

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])
            self._task = None

    async def _run(self) -> None:
        while True:
            await self._feed.until_disconnected()
            await asyncio.sleep(GRACE_SECONDS)
            if self._feed.connected:
                continue
            with suppress(FeedLost):  # PostgreSQL is away too, or ended the session: begin again
                await self._listen()
            await asyncio.sleep(RETRY_SECONDS)

    async def _listen(self) -> None:
        listener = ChangeListener()
        try:
            await listener.open(self._dsn)
            log.info("redis is away: listening to the database")
            self.listening = True
            self._feed.resync_all()
            while not self._feed.connected:
                for change in await listener.next_batch(timeout=POLL_SECONDS):
                    self._feed.dispatch(change)
        finally:
            self.listening = False
            await listener.close()
