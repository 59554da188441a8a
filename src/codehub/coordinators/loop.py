"""The loop every coordinator runs in: acquire leadership, verify, tick, wait.

A coordinator is a ``tick`` and little else. The loop acquires leadership, keeps verifying it (also while a tick
waits for I/O), spaces the ticks and contains failures: a tick that fails is logged, counted and skipped; a lost
connection gives up the lead and runs for election again; an error of the loop itself does the same. One
coordinator's errors never reach another's.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

import structlog
from prometheus_client import Counter, Gauge, Histogram

from codehub.coordinators.control_store import TermStore
from codehub.coordinators.leadership import Leadership, LeadershipLost
from codehub.coordinators.wake_signal import WakeSignal
from codehub.domain.errors import EffectError, Reason
from codehub.kit.clock import monotonic
from codehub.signals.hints import Hint
from codehub.store.cluster.terms import rivals_of
from codehub.store.errors import database_failure
from codehub.store.outage import DATABASE

log = structlog.get_logger(__name__)

SHORTEST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 1.0
BURST_SECONDS = 0.05
REUSE_VERIFICATION_SECONDS = 1.0
"""Reuse a pg_locks check up to 1 s old: the tick's transactions check the term all the same."""
RIVALS_SECONDS = 60.0
UNREACHABLE_SECONDS = 60.0
JITTER = 0.3

TICK_SECONDS = Histogram("codehub_tick_duration_seconds", "How long a tick took", ["coordinator"])
TICK_FAILURES = Counter("codehub_tick_failures_total", "Ticks that failed", ["coordinator"])
TICK_LAG = Histogram("codehub_tick_lag_seconds", "How much later than intended a tick began", ["coordinator"])
IS_LEADER = Gauge("codehub_is_leader", "1 while this process leads", ["coordinator"])
RIVALS = Gauge(
    "codehub_rival_leaders",
    "Others that lead the same coordinator under another COORDINATOR_LOCK_ID",
    ["coordinator"],
)
ELECTIONS = Counter("codehub_elections_won_total", "Terms begun by this process", ["coordinator"])


@dataclass(frozen=True)
class TickReport:
    """Counts of one tick, for tests, logs and metrics."""

    seen: int = 0
    changed: int = 0
    started: int = 0
    failed: int = 0


class Coordinator(Protocol):
    """A coordinator, as the loop runs it."""

    @property
    def name(self) -> str: ...

    @property
    def wake_signal(self) -> WakeSignal: ...

    async def on_elected(self) -> None:
        """Forget what was known in an earlier term: leadership was just acquired."""

    async def tick(self, hint: Hint | None) -> TickReport:
        """Run one round: read, decide, write. Short; long work runs beside it."""

    def next_wait_seconds(self) -> float:
        """How long to wait for a hint after the last tick."""

    async def on_lost(self) -> None:
        """Cancel what runs beside the loop and confirm it gone: leadership was lost."""


@dataclass(frozen=True)
class LoopTiming:
    retry_seconds: float = 5.0
    verify_seconds: float = 4.0
    start_jitter_seconds: float = 5.0


@dataclass
class LoopStatus:
    """State of a loop, for ``/health/coordinator``."""

    last_tick_at: datetime | None = None
    last_error: str | None = None
    ticks: int = 0
    last_report: TickReport = field(default_factory=TickReport)


class CoordinatorLoop:
    """Runs one coordinator: elections, verification, ticks, waits."""

    def __init__(
        self, coordinator: Coordinator, leadership: Leadership, *, store: TermStore, timing: LoopTiming
    ) -> None:
        self.coordinator = coordinator
        self.leadership = leadership
        self.status = LoopStatus()
        self._store = store
        self._timing = timing
        self._stopping = asyncio.Event()
        self._burst_seconds = 0.0
        self._recorded_error: str | None = None
        self._rivals_at = 0.0
        self._unreachable_at = float("-inf")  # next line about it, at the earliest
        self._verified_at = 0.0  # by the event loop's monotonic clock
        self._log = log.bind(coordinator=coordinator.name)

    async def run(self) -> None:
        """Run until ``stop``. Never raises for a fault outside this process."""
        self.coordinator.wake_signal.start()
        try:
            await self._pause(random.uniform(0, self._timing.start_jitter_seconds))
            while not self._stopping.is_set():
                try:
                    await self._serve_term()
                except Exception as error:  # noqa: BLE001 - no error ends the loop
                    self._note_error(error)
                    await self._pause(_jittered(self._timing.retry_seconds))
        finally:
            await self.coordinator.wake_signal.close()

    def stop(self) -> None:
        """Stop ticking, release the lead, end ``run``."""
        self._stopping.set()
        self.coordinator.wake_signal.set()

    async def _serve_term(self) -> None:
        if not await self._elected_or_stopping():
            return
        name = self.coordinator.name
        IS_LEADER.labels(name).set(1)
        ELECTIONS.labels(name).inc()
        try:
            async with self._verifying_leadership():
                self._recorded_error, self._rivals_at = None, 0.0
                await self.coordinator.on_elected()
                while not self._stopping.is_set():
                    await self._tick_once()
        finally:
            IS_LEADER.labels(name).set(0)
            # In this order: what acts beside the loop ends before a successor can take the lock.
            try:
                await self.coordinator.on_lost()
            finally:
                await self.leadership.release()
                self._log.info("leadership ended")

    async def _tick_once(self) -> None:
        # Pays for: POST → ready. One round trip less in each tick.
        if asyncio.get_running_loop().time() - self._verified_at > REUSE_VERIFICATION_SECONDS:
            await self._verify()
        began = monotonic()
        try:
            report = await self.coordinator.tick(self.coordinator.wake_signal.take())
        except LeadershipLost:
            raise
        except Exception as error:
            if not self.leadership.is_leader:
                raise LeadershipLost(str(error)) from error
            TICK_FAILURES.labels(self.coordinator.name).inc()
            self._note_error(error)
            await self._record_error()
        else:
            self.status.last_report = report
            self.status.last_error = self._recorded_error = None
            self.status.ticks += 1
            self.status.last_tick_at = datetime.now(UTC)
        took = monotonic() - began
        TICK_SECONDS.labels(self.coordinator.name).observe(took)
        paused_at = monotonic()
        await self._throttle(took)
        await self._wait_for_work()
        self._burst_seconds = max(0.0, self._burst_seconds - (monotonic() - paused_at))

    async def _record_error(self) -> None:
        """Record the error for health checks of other processes: once, however often it repeats."""
        error = self.status.last_error
        if error is None or error == self._recorded_error:
            return
        async with self.leadership.statement() as session:
            await self._store.record_error(session, self.leadership.name, error)
        self._recorded_error = error

    async def _report_rivals(self) -> None:
        """Report other leaders of this coordinator, every 60 s.

        Replicas with different lock ids each elect a leader, and all of these write the same rows.
        """
        now = asyncio.get_running_loop().time()
        if now < self._rivals_at:
            return
        self._rivals_at = now + RIVALS_SECONDS
        async with self.leadership.statement() as session:
            found = rivals_of(self.leadership.name, (await self._store.read_terms(session)).values())
        RIVALS.labels(self.coordinator.name).set(len(found))
        for rival in found:
            self._log.error(
                "two leaders of one coordinator: replicas differ in COORDINATOR_LOCK_ID, give all the same",
                lock=self.leadership.name,
                other_lock=rival.lock_name,
                other_holder=rival.holder_id,
            )

    async def _throttle(self, took: float) -> None:
        """Pause so that, after a burst of ``BURST_SECONDS``, at most half of the time is spent ticking.

        The pause is 1 s at most: a tick that took longer mostly waited for another system, and pausing as
        long would add to that.
        """
        effort = max(took, SHORTEST_PAUSE_SECONDS)
        self._burst_seconds += effort
        if self._burst_seconds > BURST_SECONDS:
            await self._pause(min(effort, LONGEST_PAUSE_SECONDS))

    async def _wait_for_work(self) -> None:
        wait = _jittered(self.coordinator.next_wait_seconds())
        due = monotonic() + wait
        await self.coordinator.wake_signal.wait(wait)
        if self.leadership.lost.is_set():
            raise LeadershipLost("noticed while waiting")
        TICK_LAG.labels(self.coordinator.name).observe(max(0.0, monotonic() - due))

    async def _elected_or_stopping(self) -> bool:
        """Run for election; a stop interrupts the wait."""
        acquiring = asyncio.create_task(self.leadership.acquire())
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({acquiring, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not acquiring.done():
                return False
            await acquiring
            return True
        finally:
            for task in (acquiring, stopping):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    @asynccontextmanager
    async def _verifying_leadership(self) -> AsyncIterator[None]:
        """Verify beside the ticks: a long tick needs a recent check, and an idle session is ended by the server."""

        async def verify_repeatedly() -> None:
            interval = _jittered(self._timing.verify_seconds)
            while True:
                left = self._verified_at + interval - asyncio.get_running_loop().time()
                if left > SHORTEST_PAUSE_SECONDS:  # a tick has verified meanwhile
                    await asyncio.sleep(left)
                    continue
                interval = _jittered(self._timing.verify_seconds)
                try:
                    await self._verify()
                except LeadershipLost:
                    self.coordinator.wake_signal.set()  # end the wait, so that the loop finds leadership lost
                    return

        self._verified_at = asyncio.get_running_loop().time()  # acquiring the lock counts as a check
        task = asyncio.create_task(verify_repeatedly(), name=f"prove-{self.coordinator.name}")
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _verify(self) -> None:
        asked_at = asyncio.get_running_loop().time()
        await self.leadership.verify()
        self._verified_at = asked_at
        await self._report_rivals()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()

    def _note_error(self, error: Exception) -> None:
        self.status.last_error = f"{type(error).__name__}: {error}"
        failure = database_failure(error) or database_failure(self.leadership.lost_by)
        if failure is not None:
            DATABASE.failed(self.coordinator.name, failure)
        elif isinstance(error, LeadershipLost):
            self._log.warning("leadership lost", error=str(error))
        elif isinstance(error, EffectError) and error.reason is Reason.UNREACHABLE:
            self._note_unreachable(error)
        else:
            self._log.error("tick failed", error=self.status.last_error, exc_info=error)

    def _note_unreachable(self, error: EffectError) -> None:
        """Log once a minute: while the runtime or the archive store is away, every tick fails here."""
        now = monotonic()
        if now < self._unreachable_at:
            return
        self._unreachable_at = now + UNREACHABLE_SECONDS
        self._log.warning("tick failed: the runtime or the archive store is away", error=str(error))


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)
