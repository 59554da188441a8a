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
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.kit.clock import monotonic
from codehub.signals.hints import Hint, HintTarget
from codehub.signals.live import LivePublisher
from codehub.signals.notices import Change
from codehub.signals.notify import ChangeListener, FeedLost
from codehub.store.cluster import terms as terms

log = structlog.get_logger(__name__)

IDLE_SECONDS = 30.0
OWED_SECONDS = 0.5
RECORD_SECONDS = 10.0

# Who has to look because of a change somebody else made. An operation's own steps are not among them: whoever
# takes one tells the next itself, and each idle look would stand before the one that matters.
WAKES = {
    HintTarget.RECONCILER: frozenset({"desired_state", "deleted_at"}),
    HintTarget.OBSERVER: frozenset({"deleted_at", "error_info"}),
}

# What is wanted or was seen, the Reconciler answers with a step within milliseconds, mostly. People are told
# of both together, or of the one alone if no step comes.
ANSWERED = frozenset({"desired_state", "deleted_at", "observed_status", "health_status"})
ANSWERED_SECONDS = 0.02


class EventListener:
    name = "events"

    def __init__(
        self,
        *,
        leadership: Leadership,
        live: LivePublisher,
        coordinator_hints: CoordinatorHints,
        wake_signal: WakeSignal,
    ) -> None:
        self.wake_signal = wake_signal
        self._lead = leadership
        self._live = live
        self._coordinator_hints = coordinator_hints
        self._listener = ChangeListener()
        self._pump: asyncio.Task[None] | None = None
        self._queue: list[Change] = []
        self._untold: list[Change] = []
        self._tell_at = 0.0
        self._owes_resync = True
        self._feed_lost: FeedLost | None = None
        self._record_at = 0.0

    async def on_elected(self) -> None:
        self._listener = ChangeListener()
        self._queue, self._untold, self._feed_lost, self._owes_resync = [], [], None, True
        async with self._lead.raw_connection() as raw:
            await self._listener.attach(raw)
        self._pump = asyncio.create_task(self._receive(), name="event-listener")

    async def on_lost(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump
        await self._listener.close()

    def next_wait_seconds(self) -> float:
        if self._owes_resync:
            return OWED_SECONDS
        return max(0.0, self._tell_at - monotonic()) if self._untold else IDLE_SECONDS

    async def tick(self, hint: Hint | None) -> TickReport:
        del hint
        if self._feed_lost is not None:
            raise LeadershipLost(str(self._feed_lost)) from self._feed_lost
        changes, self._queue = self._queue, []
        if not self._untold:
            self._tell_at = monotonic() + ANSWERED_SECONDS
        self._untold += changes
        if self._owes_resync:
            await self._resync()
        else:
            await self._hint(changes)
            await self._tell()
        await self._record_now_and_then()
        return TickReport(seen=len(changes), changed=len(changes))

    async def _record_now_and_then(self) -> None:
        """For people who ask who leads what; not with every event, which is to arrive at once."""
        if monotonic() >= self._record_at:
            self._record_at = monotonic() + RECORD_SECONDS
            async with self._lead.statement() as session:
                await terms.record_tick(session, self._lead.name, detail={})

    async def _resync(self) -> None:
        """Everybody begins again; whatever was queued is included in that."""
        self._untold = []
        self._owes_resync = not await self._live.publish_resync()
        await self._coordinator_hints.send(HintTarget.OBSERVER)
        await self._coordinator_hints.send(HintTarget.RECONCILER)

    async def _hint(self, changes: list[Change]) -> None:
        for target, columns in WAKES.items():
            ids = {each.id for each in changes if each.changed & columns}
            if ids:
                await self._coordinator_hints.send(target, ids)

    async def _tell(self) -> None:
        if monotonic() < self._tell_at and all(map(_may_be_answered, self._untold)):
            return
        untold, self._untold = self._untold, []
        if untold and not await self._live.publish_changes(_newest(untold), each=untold):
            self._owes_resync = True

    async def _receive(self) -> None:
        try:
            while True:
                # First the wait, then the queue: a tick meanwhile puts a new list in place of the old one.
                batch = await self._listener.next_batch()
                self._queue.extend(batch)
                self.wake_signal.set()
        except FeedLost as error:
            self._feed_lost = error
            self.wake_signal.set()


def _may_be_answered(change: Change) -> bool:
    return change.changed <= ANSWERED or change.version == 1


def _newest(changes: Iterable[Change]) -> list[Change]:
    """One for each workspace: whoever hears of it reads the row as it is by then."""
    newest: dict[UUID, Change] = {}
    for change in changes:
        before = newest.get(change.id)
        columns = change.changed if before is None else before.changed | change.changed
        newest[change.id] = replace(change, changed=columns)
    return list(newest.values())
