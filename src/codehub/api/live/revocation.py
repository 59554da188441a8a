"""End the streams of people who were signed out, disabled or given another role.

A stream outlives the authentication of its request. So all open streams are checked again, at a hint or every
15 s, with a constant number of queries for any number of streams. The hint also makes every replica drop what it
cached of that person; without Redis the cache is used for up to 2 s.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from prometheus_client import Gauge

from codehub.kit.tasks import cancel_and_wait
from codehub.services.identity import Identities, Principal
from codehub.signals.live import LiveFeed, Notice, PersonChanged, follow
from codehub.store.errors import DATABASE_FAILED

INTERVAL_SECONDS = 15.0

SUBSCRIBERS = Gauge("codehub_sse_subscribers", "Open event streams of this process")


class StreamRevoker:
    """Checks the principals of open streams, and ends the streams of revoked ones."""

    def __init__(self, identities: Identities, *, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._identities = identities
        self._interval_seconds = interval_seconds
        self._open: dict[object, tuple[Principal, Callable[[], None]]] = {}
        self._task: asyncio.Task[None] | None = None
        self._check_requested = asyncio.Event()
        self.is_ending = False  # streams end with this process, not with anybody's rights

    def check_now(self) -> None:
        """Check all streams now: a person's rights have changed."""
        self._check_requested.set()

    @contextmanager
    def watching(self, principal: Principal, end: Callable[[], None]) -> Iterator[None]:
        """Register a stream.

        ``end`` is called when its principal is revoked, or at shutdown.
        """
        key = object()
        self._open[key] = (principal, end)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch(), name="stream-revoker")
        SUBSCRIBERS.inc()
        try:
            yield
        finally:
            SUBSCRIBERS.dec()
            del self._open[key]

    def end_all(self) -> None:
        """End every registered stream: this process ends."""
        self.is_ending = True
        for _, end in list(self._open.values()):
            end()

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])

    async def _watch(self) -> None:
        while self._open:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._interval_seconds):
                    await self._check_requested.wait()
            self._check_requested.clear()
            try:
                ended = await self._identities.ended({principal for principal, _ in self._open.values()})
            except DATABASE_FAILED:
                continue  # unknown: an outage must not sign anyone out
            for principal, end in list(self._open.values()):
                if principal in ended:
                    end()


class PeopleRevocation:
    """Follows the feed of changed rights: drops cached identities and checks streams."""

    def __init__(self, feed: LiveFeed, *, identities: Identities, revoker: StreamRevoker) -> None:
        self._feed = feed
        self._identities = identities
        self._revoker = revoker
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            following = follow(self._feed.subscribe_people, self._receive, on_gap=self._revoker.check_now)
            self._task = asyncio.create_task(following, name="people-revocation")

    async def close(self) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])
            self._task = None

    def _receive(self, notice: Notice) -> None:
        if isinstance(notice, PersonChanged):
            self._identities.forget(notice.user_id)
            self._revoker.check_now()
