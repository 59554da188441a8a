"""The event listener: PostgreSQL's NOTIFY becomes wake-ups for coordinators and live events for people.

LISTEN runs on the connection that carries the lock, so losing one is losing the other. NOTIFY forgets what
was sent while nobody listened, so the order is: LISTEN, then a full resync, then consume. Whenever Redis did
not take what was published, a resync is owed, and paid as soon as Redis is back: readers begin again from
the database instead of missing something for ever.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import structlog

from codehub.coordinators.leadership import Leadership, LeadershipLost
from codehub.coordinators.loop import TickReport
from codehub.coordinators.wakeups import Nudges, Wakeups
from codehub.kit.clock import monotonic
from codehub.signals.hints import Hint, HintTarget
from codehub.signals.live import LivePublisher
from codehub.signals.notices import Change
from codehub.signals.notify import ChangeListener, FeedLost
from codehub.store import leadership as terms

log = structlog.get_logger(__name__)

IDLE_SECONDS = 30.0
OWED_SECONDS = 0.5
RECORD_SECONDS = 10.0

# Who has to look because of a change somebody else made. An operation's own steps are not among them: whoever
# takes one tells the next itself, and each idle look would stand before the one that matters.
WAKES_RECONCILER = frozenset({"desired_state", "deleted_at"})
WAKES_OBSERVER = frozenset({"deleted_at", "error_info"})

# What was seen is answered by the Reconciler within milliseconds, mostly. People are told of both together.
SEEN = frozenset({"observed_status", "health_status"})
ANSWERED_SECONDS = 0.02


class EventListener:
    name = "events"

    def __init__(
        self, *, leadership: Leadership, live: LivePublisher, nudges: Nudges, wakeups: Wakeups
    ) -> None:
        self.wakeups = wakeups
        self._lead = leadership
        self._live = live
        self._nudges = nudges
        self._listener = ChangeListener()
        self._pump: asyncio.Task[None] | None = None
        self._queue: list[Change] = []
        self._unanswered: asyncio.TimerHandle | None = None
        self._owes_resync = True
        self._feed_lost: str | None = None
        self._record_at = 0.0

    async def on_elected(self) -> None:
        self._listener = ChangeListener()
        self._queue, self._feed_lost, self._owes_resync = [], None, True
        async with self._lead.raw_connection() as raw:
            await self._listener.attach(raw)
        self._pump = asyncio.create_task(self._receive(), name="event-listener")

    async def on_lost(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump
        self._stop_waiting_for_an_answer()
        await self._listener.close()

    def next_wait_seconds(self) -> float:
        return OWED_SECONDS if self._owes_resync else IDLE_SECONDS

    async def tick(self, hint: Hint | None) -> TickReport:
        del hint
        if self._feed_lost is not None:
            raise LeadershipLost(self._feed_lost)
        changes, self._queue = self._queue, []
        self._stop_waiting_for_an_answer()
        if self._owes_resync:
            await self._resync()
        elif changes:
            await self._forward(changes)
        await self._record_now_and_then()
        return TickReport(seen=len(changes), changed=len(changes))

    async def _record_now_and_then(self) -> None:
        """For people who ask who leads what; not with every event, which is to arrive at once."""
        if monotonic() >= self._record_at:
            self._record_at = monotonic() + RECORD_SECONDS
            async with self._lead.transaction() as session:
                await terms.record_tick(session, self._lead.name, detail={})

    async def _resync(self) -> None:
        """Everybody begins again; whatever was queued is included in that."""
        self._owes_resync = not await self._live.publish_resync()
        await self._nudges.wake(HintTarget.OBSERVER)
        await self._nudges.wake(HintTarget.RECONCILER)

    async def _forward(self, changes: list[Change]) -> None:
        observer = _ids(each for each in changes if each.changed & WAKES_OBSERVER)
        reconciler = _ids(each for each in changes if each.changed & WAKES_RECONCILER)
        if reconciler:
            await self._nudges.wake(HintTarget.RECONCILER, reconciler)
        if not await self._live.publish_changes(_newest(changes)):
            self._owes_resync = True
        if observer:
            await self._nudges.wake(HintTarget.OBSERVER, observer)

    async def _receive(self) -> None:
        try:
            while True:
                # First the wait, then the queue: a tick meanwhile puts a new list in place of the old one.
                batch = await self._listener.next_batch()
                self._queue.extend(batch)
                if all(each.changed <= SEEN for each in batch):
                    self._wait_for_an_answer()
                else:
                    self.wakeups.poke()
        except FeedLost as error:
            self._feed_lost = str(error)
            self.wakeups.poke()

    def _wait_for_an_answer(self) -> None:
        if self._unanswered is None:
            loop = asyncio.get_running_loop()
            self._unanswered = loop.call_later(ANSWERED_SECONDS, self.wakeups.poke)

    def _stop_waiting_for_an_answer(self) -> None:
        if self._unanswered is not None:
            self._unanswered.cancel()
            self._unanswered = None


def _ids(changes: Iterable[Change]) -> set[UUID]:
    return {change.id for change in changes}


def _newest(changes: Iterable[Change]) -> list[Change]:
    """One for each workspace: whoever hears of it reads the row as it is by then."""
    newest: dict[UUID, Change] = {}
    for change in changes:
        before = newest.get(change.id)
        columns = change.changed if before is None else before.changed | change.changed
        newest[change.id] = replace(change, changed=columns)
    return list(newest.values())
