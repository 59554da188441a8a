"""TTL manager: stop idle workspaces and archive unused ones.

It decides by ``domain/ttl`` and writes no column itself: it loads candidates from the database, reads their
activity from Redis, and lowers the desired state through the services layer. Compare-and-set. Nothing is
lowered while Redis is away, while its data is too young to be complete, after its clock jumped, or when more
workspaces fall idle at once than people cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol
from uuid import UUID

import structlog
from prometheus_client import Counter

from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.domain.states import DesiredState
from codehub.domain.ttl import (
    archives_now,
    forgotten_cause,
    idle_cause,
    is_mass_idle,
    memory_is_complete,
    sleeps_now,
)
from codehub.domain.workspace import WorkspaceView
from codehub.kit.clock import boottime
from codehub.services import workspaces
from codehub.services.workspaces import Actor
from codehub.signals.activity import ActivityReading, RedisIdentity
from codehub.signals.connection import RedisUnavailable
from codehub.signals.hints import Hint, HintTarget
from codehub.store.cluster import terms as terms
from codehub.store.workspaces import ttl

log = structlog.get_logger(__name__)

MASS_IDLE = Counter("codehub_ttl_mass_idle_total", "Ticks that found suspiciously many idle at once")
LOWERED = Counter("codehub_ttl_transitions_total", "Desired states lowered because a TTL was over", ["to"])

CLOCK_SLACK_SECONDS = 5.0
"""Tolerated difference of two readings: answers take time, and clocks are corrected in small steps."""

TTL = Actor("ttl", is_admin=True)


class ActivitySource(Protocol):
    async def read(self, workspace_ids: Sequence[UUID]) -> ActivityReading:
        """Read activity. Raises ``RedisUnavailable``: no answer never means "idle"."""


@dataclass(frozen=True)
class Timing:
    interval_seconds: float = 60.0
    batch_size: int = 200


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
        leadership: Leadership,
        activity: ActivitySource,
        coordinator_hints: CoordinatorHints,
        wake_signal: WakeSignal,
        timing: Timing,
    ) -> None:
        self.wake_signal = wake_signal
        self._lead = leadership
        self._activity = activity
        self._coordinator_hints = coordinator_hints
        self._timing = timing
        self._held: dict[UUID, datetime] = {}
        self._more = False
        self._memory = RedisMemory()

    async def on_elected(self) -> None:
        self._held = {}  # losing a hold only begins it again

    async def on_lost(self) -> None:
        """Nothing runs beside the loop."""

    def next_wait_seconds(self) -> float:
        return 0.0 if self._more else self._timing.interval_seconds

    async def tick(self, hint: Hint | None) -> TickReport:
        del hint
        batch = self._timing.batch_size
        now = await self._lead.database_time()
        running, idle = await self._find_idle(now=now)
        async with self._lead.transaction() as session:
            forgotten = await ttl.load_archive_candidates(session, now=now, limit=batch)
            await terms.record_tick(session, self._lead.name, detail={})
        lowered = 0
        for ws in idle[:batch]:
            lowered += await self._lower(ws, DesiredState.STANDBY, cause=idle_cause(ws))
        for ws in forgotten:
            lowered += await self._lower(ws, DesiredState.PENDING, cause=forgotten_cause(ws))
        # More are due now. Not if nothing was lowered: the next tick would load the same ones.
        self._more = lowered > 0 and max(len(idle), len(forgotten) + 1) > batch
        if lowered:
            await self._coordinator_hints.send(HintTarget.RECONCILER)
        return TickReport(seen=running + len(forgotten), changed=lowered)

    async def _find_idle(self, *, now: datetime) -> tuple[int, list[WorkspaceView]]:
        """How many run, and those that may be stopped now. Read page by page, decided together."""
        running, idle = 0, []
        after = ttl.FIRST_PAGE
        while True:
            async with self._lead.statement() as session:
                page = await ttl.load_standby_candidates(
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

    async def _idle_of(self, page: Sequence[WorkspaceView], *, now: datetime) -> list[WorkspaceView]:
        if not page:
            return []
        reading = await self._activity.read([ws.id for ws in page])
        return [ws for ws in page if self._is_idle(ws, reading, now=now)]

    def _without_held(
        self, idle: Sequence[WorkspaceView], *, running: int, now: datetime
    ) -> list[WorkspaceView]:
        """Hold too many newly idle ones for one more TTL: people do not all stop in the same minute."""
        self._held = {ws.id: self._held[ws.id] for ws in idle if ws.id in self._held}
        newly = [ws for ws in idle if ws.id not in self._held]
        if is_mass_idle(newly_idle=len(newly), running=running):
            MASS_IDLE.inc()
            log.warning("suspiciously many idle at once: holding", newly_idle=len(newly), running=running)
            for ws in newly:
                self._held[ws.id] = now + timedelta(seconds=ws.standby_ttl_seconds)
        return [ws for ws in idle if ws.id not in self._held or self._held[ws.id] <= now]

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
                return self._is_idle(ws, reading, now=now)

            done = await workspaces.lower(session, seen, desired, actor=TTL, cause=cause, still_due=still_due)
        if done:
            LOWERED.labels(desired.value).inc()
            log.info("lowered", workspace_id=str(seen.id), to=desired.value, cause=cause)
        return done

    def _is_idle(self, ws: WorkspaceView, reading: ActivityReading, *, now: datetime) -> bool:
        age = self._memory.age_seconds(reading.identity)
        if not memory_is_complete(age, standby_ttl_seconds=ws.standby_ttl_seconds):
            return False
        return sleeps_now(ws, activity=reading.activities[ws.id], now=now)
