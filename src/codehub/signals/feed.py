"""Distribute live events in one API replica: one Redis subscription, many readers.

A subscriber is a queue and nothing more: no task, no socket, no timer. A thousand idle ones cost a thousand
small objects. Notices are dispatched by the ids they carry, so one without a subscriber costs three
dictionary lookups.

Slow readers: a reader with more than ``max_behind`` queued notices is dropped. Its queue is cleared and its
next read raises ``FellBehind``; the browser then reconnects and begins with a snapshot. So a slow reader
neither blocks the feed nor grows the memory of the process.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Self
from uuid import UUID

from prometheus_client import Counter

from codehub.domain.errors import CodeHubError
from codehub.signals.connection import RedisLink
from codehub.signals.notices import (
    LIVE_CHANNEL,
    PEOPLE_CHANNEL,
    RESYNC_CHANNEL,
    Notice,
    OfWorkspace,
    Resync,
    parse_notices,
    parse_person,
)
from codehub.signals.subscription import Subscription

MAX_BEHIND = 1000

IGNORED = Counter("codehub_live_ignored_total", "Live messages whose payload made no sense")
DROPPED = Counter("codehub_live_dropped_total", "Readers dropped because they fell too far behind")

# A subscription's topic: a workspace's id, its owner's id, or one of these.
_EVERYTHING = "everything"
_PEOPLE = "people"


class FellBehind(CodeHubError):
    """This reader was too slow and has been dropped; it must reconnect."""

    code = "fell_behind"


class FeedClosed(CodeHubError):
    """The process is shutting down, or this subscription has been left."""

    code = "feed_closed"


class LiveFeed:
    """The live feed of one process. ``start`` before use, ``close`` at the end."""

    def __init__(self, link: RedisLink, *, max_behind: int = MAX_BEHIND) -> None:
        self._max_behind = max_behind
        self._link = link
        self._subscribers: dict[UUID | str, set[LiveSubscription]] = {}  # by topic
        self._redis = Subscription(
            link,
            use="live feed",
            channels=[link.channel(each) for each in (LIVE_CHANNEL, RESYNC_CHANNEL, PEOPLE_CHANNEL)],
            on_message=self._receive,
            on_subscribed=self.resync_all,
        )

    @property
    def connected(self) -> bool:
        """Whether the subscription is up. After a gap a ``Resync`` follows."""
        return self._redis.connected

    async def until_disconnected(self) -> None:
        await self._redis.disconnected.wait()

    @property
    def subscriber_count(self) -> int:
        return sum(len(each) for each in self._subscribers.values())

    def start(self) -> None:
        self._redis.start()

    async def close(self) -> None:
        """Close the feed: every ``async for`` ends."""
        await self._redis.close()
        for subscriber in self._all_subscribers():
            subscriber.close()

    def subscribe_workspace(self, workspace_id: UUID) -> "LiveSubscription":
        return self._subscribe(workspace_id)

    def subscribe_user(self, owner_id: UUID) -> "LiveSubscription":
        """Subscribe to all workspaces of one owner."""
        return self._subscribe(owner_id)

    def subscribe_all(self) -> "LiveSubscription":
        """Subscribe to the workspaces of all owners: for administrators."""
        return self._subscribe(_EVERYTHING)

    def subscribe_people(self) -> "LiveSubscription":
        """Subscribe to changes of people's rights, without workspaces."""
        return self._subscribe(_PEOPLE)

    def _subscribe(self, what: UUID | str) -> "LiveSubscription":
        subscriber = LiveSubscription(self, what, max_behind=self._max_behind)
        self._subscribers.setdefault(what, set()).add(subscriber)
        return subscriber

    def _remove(self, subscriber: "LiveSubscription") -> None:
        remaining = self._subscribers.get(subscriber.what)
        if remaining is not None:
            remaining.discard(subscriber)
            if not remaining:
                del self._subscribers[subscriber.what]

    def _receive(self, channel: str, payload: bytes) -> None:
        if channel == self._link.channel(RESYNC_CHANNEL):
            self.resync_all()
            return
        if channel == self._link.channel(PEOPLE_CHANNEL):
            self._dispatch_person(payload)
            return
        for notice in parse_notices(payload):
            if notice is None:
                IGNORED.inc()
            else:
                self.dispatch(notice)

    def _dispatch_person(self, payload: bytes) -> None:
        person = parse_person(payload)
        if person is None:
            IGNORED.inc()
            return
        for reader in list(self._subscribers.get(_PEOPLE, ())):
            reader.deliver(person)

    def dispatch(self, notice: OfWorkspace) -> None:
        """Deliver a notice to its subscribers, whichever way it was received."""
        for what in (notice.id, notice.owner_id, _EVERYTHING):
            for reader in tuple(self._subscribers.get(what, ())):
                reader.deliver(notice)

    def resync_all(self) -> None:
        """Deliver ``Resync`` to every subscriber: notices may have been missed."""
        for subscriber in self._all_subscribers():
            subscriber.deliver(Resync())

    def _all_subscribers(self) -> list["LiveSubscription"]:
        return [subscriber for each in self._subscribers.values() for subscriber in each]


class LiveSubscription:
    """One reader's queue: ``async for``, or ``take(timeout)`` beside a heartbeat.

    One task reads it. Use it as a context manager: leaving it unsubscribes.
    """

    def __init__(self, feed: LiveFeed, what: UUID | str, *, max_behind: int) -> None:
        self.what = what
        self.fell_behind = False
        self._feed = feed
        self._max_behind = max_behind
        self._queue: deque[Notice] = deque()
        self._closed = False
        self._wakeup: asyncio.Future[None] | None = None

    def deliver(self, notice: Notice) -> None:
        """Queue a notice. Called by the feed; never waits."""
        if self._closed:
            return
        if isinstance(notice, Resync):
            # The snapshots that follow contain everything queued.
            self._queue.clear()
        self._queue.append(notice)
        if len(self._queue) > self._max_behind:
            self.fell_behind = True
            DROPPED.inc()
            self.close()
        self._wake()

    async def next(self, timeout: float | None = None) -> Notice | None:
        """Return the next notice; None after ``timeout`` seconds without one.

        Raises ``FellBehind`` for a dropped reader and ``FeedClosed`` once the feed has closed.
        """
        return self._queue.popleft() if await self._has_some(timeout) else None

    async def take(self, timeout: float | None = None) -> list[Notice]:
        """Return all queued notices, oldest first; [] after ``timeout`` seconds.

        Raises like ``next``. A ``Resync`` can only be the first of them.
        """
        if not await self._has_some(timeout):
            return []
        taken = list(self._queue)
        self._queue.clear()
        return taken

    async def _has_some(self, timeout: float | None) -> bool:
        if not self._queue and not self._closed:
            try:
                async with asyncio.timeout(timeout):
                    while not self._queue and not self._closed:
                        self._wakeup = asyncio.get_running_loop().create_future()
                        await self._wakeup
            except TimeoutError:
                return False
        if self._queue:
            return True
        if self.fell_behind:
            raise FellBehind("this reader was too slow and has been dropped")
        raise FeedClosed("the live feed has closed")

    def close(self) -> None:
        self._closed = True
        self._queue.clear()
        self._feed._remove(self)
        self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Notice:
        try:
            notice = await self.next()
        except FeedClosed:
            raise StopAsyncIteration from None
        assert notice is not None  # without a timeout there is always one, or an exception
        return notice

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


async def follow(
    subscribe: Callable[[], LiveSubscription],
    on_notice: Callable[[Notice], None],
    *,
    on_gap: Callable[[], None] = lambda: None,
) -> None:
    """Call ``on_notice`` for every notice until the feed closes.

    ``on_gap``: some were missed, with unknown content.
    """
    while True:
        try:
            with subscribe() as subscription:
                async for notice in subscription:
                    on_notice(notice)
            return
        except FellBehind:
            on_gap()
        except FeedClosed:
            return
