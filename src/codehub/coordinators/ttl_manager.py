"""TTL manager: stop idle workspaces and archive unused ones.

It decides by ``domain/ttl`` and writes no column itself: it loads candidates from the database, reads their
activity from Redis, and lowers the desired state through the services layer. Compare-and-set. Nothing is
lowered while Redis is away, while its data is too young to be complete, after its clock jumped, or when more
workspaces fall idle at once than people cause.

Workspaces that would be stopped are sampled first: one that works by itself is held awake by a lease in PostgreSQL
(``workspaces.busy``, ADR 0039), renewed while it works.

It also gives places that got free to those who wait (``queue_admission``, ADR 0050): first in every tick, and each
second while somebody waits. A tick between two rounds does nothing else.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import structlog
from prometheus_client import Counter

from codehub.coordinators.control_store import TtlStore
from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.queue_admission import LOOK_SECONDS, Moved, QueueAdmission
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.domain.busy import Busy, BusySign, extend_busy
from codehub.domain.limits import RunningLimits
from codehub.domain.states import DesiredState
from codehub.domain.ttl import (
    Activity,
    UsePolicy,
    archives_now,
    busy_cause,
    forgotten_cause,
    is_busy,
    is_mass_idle,
    memory_is_complete,
    sleep_cause,
    sleeps_now,
    used_at_latest,
)
from codehub.domain.workspace import WorkspaceView
from codehub.kit.clock import boottime, monotonic
from codehub.services import access, workspaces
from codehub.services.actors import Actor
from codehub.signals.activity import ActivityReading, RedisIdentity
from codehub.signals.connection import RedisUnavailable
from codehub.signals.hints import Hint, HintTarget
from codehub.store.workspaces.ttl import FIRST_PAGE

log = structlog.get_logger(__name__)

MASS_IDLE = Counter("codehub_ttl_mass_idle_total", "Ticks that found suspiciously many idle at once")
LOWERED = Counter("codehub_ttl_transitions_total", "Desired states lowered because a TTL was over", ["to"])

CLOCK_SLACK_SECONDS = 5.0
"""Tolerated difference of two readings: answers take time, and clocks are corrected in small steps."""

TTL = Actor("ttl", is_admin=True)

BUSY_TICKS = 3
"""A busy workspace is held awake for this many ticks, and sampled again before the last."""

SECOND_LOOK_SECONDS = 5.0


class ActivitySource(Protocol):
    async def read(self, workspace_ids: Sequence[UUID]) -> ActivityReading:
        """Read activity. Raises ``RedisUnavailable``: no answer never means "idle"."""


class BusySource(Protocol):
    async def sample(self, workspaces: Sequence[WorkspaceView]) -> Mapping[UUID, BusySign | None]:
        """What each of them does by itself; None: nothing. One that is missing has no answer yet."""


BusyChanged = Callable[[UUID, UUID], Awaitable[object]]
"""Called with a workspace and its owner when it became busy, does something else, or has ended."""


@dataclass(frozen=True)
class Timing:
    interval_seconds: float = 60.0
    batch_size: int = 200


@dataclass(frozen=True)
class Idle:
    """A workspace that may be stopped now unless it is busy, and why."""

    view: WorkspaceView
    activity: Activity
    cause: str

    @property
    def id(self) -> UUID:
        return self.view.id


class RedisMemory:
    """Age of the data in Redis, counted from zero when Redis's clock jumps.

    Leases and timers end by the clock of Redis's host. If that is set forward they all end at once, as if
    Redis had been flushed, and only the proxies' next renewals report use again.
    """

    def __init__(self) -> None:
        self._seen: tuple[float, float] | None = None  # by Redis's clock, and by ours
        self._jumped_at: float | None = None

    def age_seconds(self, identity: RedisIdentity) -> float:
        now = boottime()
        if self._seen is not None:
            jump = (identity.now_seconds - self._seen[0]) - (now - self._seen[1])
            if abs(jump) > CLOCK_SLACK_SECONDS:
                log.warning("the clock of Redis jumped: nobody is put to sleep for now", seconds=round(jump))
                self._jumped_at = now
        self._seen = (identity.now_seconds, now)
        if self._jumped_at is None:
            return identity.age_seconds
        return min(identity.age_seconds, now - self._jumped_at)


class TtlManager:
    """Coordinator that lowers desired states whose TTL is over."""

    name = "ttl"

    def __init__(
        self,
        *,
        store: TtlStore,
        leadership: Leadership,
        activity: ActivitySource,
        coordinator_hints: CoordinatorHints,
        wake_signal: WakeSignal,
        timing: Timing,
        policy: UsePolicy,
        limits: RunningLimits,
        busy: BusySource | None = None,
        on_busy_changed: BusyChanged | None = None,
        on_moved: Moved | None = None,
    ) -> None:
        self.wake_signal = wake_signal
        self._busy = busy if policy.busy_limit else None
        self._on_busy_changed = on_busy_changed
        self._second_look = False
        self._policy = policy
        self._store = store
        self._lead = leadership
        self._activity = activity
        self._coordinator_hints = coordinator_hints
        self._timing = timing
        self._held: dict[UUID, datetime] = {}
        self._more = False
        self._memory = RedisMemory()
        self._queue = QueueAdmission(store=store, leadership=leadership, limits=limits, on_moved=on_moved)
        self._round_at = float("-inf")  # when the TTLs are looked at again

    async def on_elected(self) -> None:
        self._held = {}  # losing a hold only begins it again
        self._queue.forget()
        self._round_at = float("-inf")

    async def on_lost(self) -> None:
        """Nothing runs beside the loop."""

    def next_wait_seconds(self) -> float:
        left = max(0.0, self._round_at - monotonic())
        return min(left, LOOK_SECONDS) if self._queue.waits else left

    async def tick(self, hint: Hint | None) -> TickReport:
        """Admit who waits; then, if it is time, a round of the TTLs.

        A hint that names workspaces is about the queue, any other one asks for a round.
        """
        admitted = await self._queue.look()
        asked = hint is not None and hint.everything
        seen, lowered = 0, 0
        if asked or monotonic() >= self._round_at:
            self._round_at = monotonic() + self._timing.interval_seconds  # also if this one fails
            seen, lowered = await self._round()
            self._round_at = monotonic() + self._pause_seconds()
        if admitted or lowered:
            await self._coordinator_hints.send(HintTarget.RECONCILER)
        return TickReport(seen=seen, changed=admitted + lowered)

    def _pause_seconds(self) -> float:
        if self._more:
            return 0.0
        interval = self._timing.interval_seconds
        return min(SECOND_LOOK_SECONDS, interval) if self._second_look else interval

    async def _round(self) -> tuple[int, int]:
        """Look at all TTLs once; return how many were looked at and how many were lowered."""
        batch = self._timing.batch_size
        now = await self._lead.database_time()
        running, idle = await self._find_idle(now=now)
        async with self._lead.transaction() as session:
            forgotten = await self._store.load_archive_candidates(session, now=now, limit=batch)
            await self._store.record_tick(session, self._lead.name, detail={})
        lowered = 0
        for each in await self._without_busy(idle[:batch], now=now):
            lowered += await self._lower(each.view, DesiredState.STANDBY, cause=each.cause)
        for ws in forgotten:
            lowered += await self._lower(ws, DesiredState.PENDING, cause=forgotten_cause(ws))
        # More are due now. Not if nothing was lowered: the next round would load the same ones.
        self._more = lowered > 0 and max(len(idle), len(forgotten) + 1) > batch
        return running + len(forgotten), lowered

    async def _find_idle(self, *, now: datetime) -> tuple[int, list[Idle]]:
        """How many run, and those that may be stopped now. Read page by page, decided together."""
        running = 0
        idle: list[Idle] = []
        after = FIRST_PAGE
        while True:
            async with self._lead.statement() as session:
                page = await self._store.load_standby_candidates(
                    session, now=now, after=after, limit=self._timing.batch_size
                )
            running += len(page)
            try:
                idle += await self._idle_of(page, now=now)
            except RedisUnavailable as error:
                log.warning("nobody is put to sleep: activity cannot be read", error=str(error))
                return running, []
            if len(page) < self._timing.batch_size:
                return running, self._without_held(idle, running=running, now=now)
            after = page[-1].id

    async def _idle_of(self, page: Sequence[WorkspaceView], *, now: datetime) -> list[Idle]:
        if not page:
            return []
        # A busy one is sampled again while its lease still lasts: it is busy without a gap.
        soon = now + timedelta(seconds=self._timing.interval_seconds)
        page = [ws for ws in page if not is_busy(ws, now=soon)]
        reading = await self._activity.read([ws.id for ws in page])
        found = []
        for ws in page:
            activity = self._activity_of(ws, reading)
            if self._is_idle(replace(ws, busy=None), activity, now=now):
                found.append(Idle(ws, activity, sleep_cause(ws, activity, policy=self._policy)))
        return found

    def _without_held(self, idle: Sequence[Idle], *, running: int, now: datetime) -> list[Idle]:
        """Hold too many newly idle ones for one more TTL: people do not all stop in the same minute."""
        self._held = {ws.id: self._held[ws.id] for ws in idle if ws.id in self._held}
        newly = [ws for ws in idle if ws.id not in self._held and not is_busy(ws.view, now=now)]
        if is_mass_idle(newly_idle=len(newly), running=running):
            MASS_IDLE.inc()
            log.warning("suspiciously many idle at once: holding", newly_idle=len(newly), running=running)
            for ws in newly:
                self._held[ws.id] = now + timedelta(seconds=ws.view.standby_ttl_seconds)
        return [ws for ws in idle if ws.id not in self._held or self._held[ws.id] <= now]

    async def _without_busy(self, idle: Sequence[Idle], *, now: datetime) -> list[Idle]:
        """Hold busy workspaces awake, and return the others. Those without an answer are left for the next tick.

        No transaction is open while they are asked.
        """
        self._second_look = False
        if self._busy is None or not idle:
            return list(idle)
        signs = await self._busy.sample([each.view for each in idle])
        self._second_look = len(signs) < len(idle)
        answered = [each for each in idle if each.id in signs]
        held = [await self._hold_if_busy(each, signs[each.id], now=now) for each in answered]
        return [each for each in held if each is not None]

    async def _hold_if_busy(self, idle: Idle, sign: BusySign | None, *, now: datetime) -> Idle | None:
        """Renew its lease; returned unless it has one then. A crash before the write: sampled again."""
        ws, policy = idle.view, self._policy
        busy: Busy | None = None
        if sign is not None:
            busy = extend_busy(
                ws.busy,
                sign,
                used_at=used_at_latest(ws, idle.activity, now=now, policy=policy),
                now=now,
                lease=timedelta(seconds=BUSY_TICKS * self._timing.interval_seconds),
                limit=policy.busy_limit,
            )
            if busy is None:  # and ``ws.busy`` stays: what was too long does not begin again
                return replace(idle, cause=busy_cause(policy))
        if busy != ws.busy:
            async with self._lead.statement(actor=TTL.label) as session:
                await access.mark_busy(session, ws.id, busy, store=self._store)
            changed = busy is None or ws.busy is None or busy.sign != ws.busy.sign
            if changed and self._on_busy_changed is not None:
                await self._on_busy_changed(ws.id, ws.owner_id)
        return idle if busy is None else None

    async def _lower(self, seen: WorkspaceView, desired: DesiredState, *, cause: str) -> bool:
        """Lower one desired state, in its own short transaction: a person's change never waits for a hundred."""
        async with self._lead.transaction() as session:
            now = self._lead.now

            async def still_due(ws: WorkspaceView) -> bool:
                if desired is DesiredState.PENDING:
                    return archives_now(ws, now=now)
                # The only read outside the database under a row's lock, because a connection opened since
                # must win. Bounded by the Redis link's timeout of 1 s.
                try:
                    reading = await self._activity.read([ws.id])
                except RedisUnavailable:
                    return False
                return self._is_idle(ws, self._activity_of(ws, reading), now=now)

            done = await workspaces.lower(
                session, seen, desired, actor=TTL, cause=cause, still_due=still_due, store=self._store
            )
        if done:
            LOWERED.labels(desired.value).inc()
            log.info("lowered", workspace_id=str(seen.id), to=desired.value, cause=cause)
        return done

    def _is_idle(self, ws: WorkspaceView, activity: Activity, *, now: datetime) -> bool:
        age_seconds = activity.memory_age.total_seconds()
        if not memory_is_complete(age_seconds, standby_ttl_seconds=ws.standby_ttl_seconds):
            return False
        return sleeps_now(ws, activity=activity, now=now, policy=self._policy)

    def _activity_of(self, ws: WorkspaceView, reading: ActivityReading) -> Activity:
        age = self._memory.age_seconds(reading.identity)
        return replace(reading.activities[ws.id], memory_age=timedelta(seconds=age))
