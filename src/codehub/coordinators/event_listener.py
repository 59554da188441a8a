"""Event listener: turn PostgreSQL's NOTIFY into coordinator hints and live events.

LISTEN runs on the connection that carries the lock, so losing one is losing the other. NOTIFY drops what was
sent while nobody listened, so the order is: LISTEN, then a full resync, then consume. If Redis did not take
what was published, a resync is pending and published as soon as Redis answers: readers begin again from the
database instead of missing a change for ever.
"""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from uuid import UUID

import structlog

from codehub.coordinators.control_store import TermStore
from codehub.coordinators.leadership import Leadership, LeadershipLost
from codehub.coordinators.loop import TickReport
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.kit.clock import monotonic
from codehub.signals.hints import Hint, HintTarget
from codehub.signals.live import LivePublisher
from codehub.signals.notices import Change
from codehub.signals.notify import ChangeListener, FeedLost

log = structlog.get_logger(__name__)

IDLE_SECONDS = 30.0
RESYNC_RETRY_SECONDS = 0.5
RECORD_SECONDS = 10.0

# Which coordinator is hinted after a change of which columns. An operation's own columns are not among them: the
# coordinator that wrote them sends the next hint itself, and each needless tick would delay the one that matters.
WAKES = {
    HintTarget.RECONCILER: frozenset({"desired_state", "deleted_at"}),
    HintTarget.OBSERVER: frozenset({"deleted_at", "error_info"}),
    HintTarget.TTL_MANAGER: frozenset({"queued_at"}),
}

# The Reconciler mostly answers a change of these columns with a step within milliseconds. Hold their live event
# for up to ANSWERED_SECONDS, so that both are published together; without a step it is published alone.
ANSWERED = frozenset({"desired_state", "deleted_at", "observed_status", "health_status"})
ANSWERED_SECONDS = 0.02


class EventListener:
    """Coordinator that publishes database changes as hints and live events."""

    name = "events"

    def __init__(
        self,
        *,
        store: TermStore,
        leadership: Leadership,
        live: LivePublisher,
        coordinator_hints: CoordinatorHints,
        wake_signal: WakeSignal,
    ) -> None:
        self.wake_signal = wake_signal
        self._store = store
        self._lead = leadership
        self._live = live
        self._coordinator_hints = coordinator_hints
        self._listener = ChangeListener()
        self._pump: asyncio.Task[None] | None = None
        self._queue: list[Change] = []
        self._unpublished: list[Change] = []
        self._publish_at = 0.0
        self._resync_pending = True
        self._feed_lost: FeedLost | None = None
        self._record_at = 0.0

    async def on_elected(self) -> None:
        self._listener = ChangeListener()
        self._queue, self._unpublished, self._feed_lost, self._resync_pending = [], [], None, True
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
        if self._resync_pending:
            return RESYNC_RETRY_SECONDS
        return max(0.0, self._publish_at - monotonic()) if self._unpublished else IDLE_SECONDS

    async def tick(self, hint: Hint | None) -> TickReport:
        del hint
        if self._feed_lost is not None:
            raise LeadershipLost(str(self._feed_lost)) from self._feed_lost
        changes, self._queue = self._queue, []
        if not self._unpublished:
            self._publish_at = monotonic() + ANSWERED_SECONDS
        self._unpublished += changes
        if self._resync_pending:
            await self._resync()
        else:
            await self._hint(changes)
            await self._publish()
        await self._record_tick()
        return TickReport(seen=len(changes), changed=len(changes))

    async def _record_tick(self) -> None:
        """Record the tick for ``/health/coordinator``, every 10 s: a write per event would delay events."""
        if monotonic() >= self._record_at:
            self._record_at = monotonic() + RECORD_SECONDS
            async with self._lead.statement() as session:
                await self._store.record_tick(session, self._lead.name, detail={})

    async def _resync(self) -> None:
        """Publish a resync in place of all queued changes, and hint Observer and Reconciler."""
        self._unpublished = []
        self._resync_pending = not await self._live.publish_resync()
        await self._coordinator_hints.send(HintTarget.OBSERVER)
        await self._coordinator_hints.send(HintTarget.RECONCILER)

    async def _hint(self, changes: list[Change]) -> None:
        for target, columns in WAKES.items():
            ids = {each.id for each in changes if each.changed & columns}
            if ids:
                await self._coordinator_hints.send(target, ids)

    async def _publish(self) -> None:
        if monotonic() < self._publish_at and all(map(_may_be_answered, self._unpublished)):
            return
        changes, self._unpublished = self._unpublished, []
        if changes and not await self._live.publish_changes(_newest(changes), each=changes):
            self._resync_pending = True

    async def _receive(self) -> None:
        try:
            while True:
                # Wait first, then read ``self._queue``: a tick in between replaces the list.
                batch = await self._listener.next_batch()
                self._queue.extend(batch)
                self.wake_signal.set()
        except FeedLost as error:
            self._feed_lost = error
            self.wake_signal.set()


def _may_be_answered(change: Change) -> bool:
    return change.changed <= ANSWERED or change.version == 1


def _newest(changes: Iterable[Change]) -> list[Change]:
    """The newest change of each workspace, with all changed columns: readers load the row anyway."""
    newest: dict[UUID, Change] = {}
    for change in changes:
        before = newest.get(change.id)
        columns = change.changed if before is None else before.changed | change.changed
        newest[change.id] = replace(change, changed=columns)
    return list(newest.values())
