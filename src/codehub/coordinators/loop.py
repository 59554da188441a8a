"""The one loop every coordinator runs in: ensure leadership, verify, tick, wait.

A coordinator is a ``tick`` and little else. The loop gives it leadership, keeps proving it (also while a
tick waits for I/O), spaces the ticks, and makes failures small: a tick that fails is logged, counted and
skipped; a lost connection gives up the lead and runs for election again; an error of the loop itself does
the same. One coordinator's errors never reach another's.
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

from codehub.coordinators.leadership import Leadership, LeadershipLost
from codehub.coordinators.wake_signal import WakeSignal
from codehub.kit.clock import monotonic
from codehub.signals.hints import Hint
from codehub.store.cluster import terms as terms
from codehub.store.errors import database_failure
from codehub.store.outage import DATABASE

log = structlog.get_logger(__name__)

SHORTEST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 1.0
SPRINT_SECONDS = 0.05
PROOF_SECONDS = 1.0
"""A tick believes a look into pg_locks that is younger: its transaction asks for the term all the same."""
RIVALS_SECONDS = 60.0
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
    """What a tick did: what tests, logs and metrics read."""

    seen: int = 0
    changed: int = 0
    started: int = 0
    failed: int = 0


class Coordinator(Protocol):
    """What the loop needs of a coordinator."""

    @property
    def name(self) -> str: ...

    @property
    def wake_signal(self) -> WakeSignal: ...

    async def on_elected(self) -> None:
        """Leadership was just acquired; nothing of an earlier term may be believed."""

    async def tick(self, hint: Hint | None) -> TickReport:
        """One look and one round of steps. Short; long work runs beside it."""

    def next_wait_seconds(self) -> float:
        """How long to wait for a hint after the last tick."""

    async def on_lost(self) -> None:
        """Leadership is gone: cancel what runs beside the loop and confirm it gone."""


@dataclass(frozen=True)
class LoopTiming:
    retry_seconds: float = 5.0
    verify_seconds: float = 4.0
    start_jitter_seconds: float = 5.0


@dataclass
class LoopStatus:
    """For ``/health/coordinator``."""

    last_tick_at: datetime | None = None
    last_error: str | None = None
    ticks: int = 0
    last_report: TickReport = field(default_factory=TickReport)


class CoordinatorLoop:
    def __init__(self, coordinator: Coordinator, leadership: Leadership, *, timing: LoopTiming) -> None:
        self.coordinator = coordinator
        self.leadership = leadership
        self.status = LoopStatus()
        self._timing = timing
        self._stopping = asyncio.Event()
        self._sprinted = 0.0
        self._recorded_error: str | None = None
        self._rivals_at = 0.0
        self._verified_at = 0.0  # by the event loop's clock, which nothing makes jump
        self._log = log.bind(coordinator=coordinator.name)

    async def run(self) -> None:
        """Until ``stop``. Never raises for a fault of the world outside."""
        self.coordinator.wake_signal.start()
        try:
            await self._pause(random.uniform(0, self._timing.start_jitter_seconds))
            while not self._stopping.is_set():
                try:
                    await self._serve_a_term()
                except Exception as error:  # noqa: BLE001 - the loop outlives whatever happens in it
                    self._note_error(error)
                    await self._pause(_jittered(self._timing.retry_seconds))
        finally:
            await self.coordinator.wake_signal.close()

    def stop(self) -> None:
        """Stop ticking, hand over the lead, end ``run``."""
        self._stopping.set()
        self.coordinator.wake_signal.set()

    async def _serve_a_term(self) -> None:
        if not await self._elected_or_stopping():
            return
        name = self.coordinator.name
        IS_LEADER.labels(name).set(1)
        ELECTIONS.labels(name).inc()
        try:
            async with self._proving_leadership():
                self._recorded_error, self._rivals_at = None, 0.0
                await self.coordinator.on_elected()
                while not self._stopping.is_set():
                    await self._tick_once()
        finally:
            IS_LEADER.labels(name).set(0)
            # The order matters: what acts beside the loop ends before the lock is free for a successor.
            try:
                await self.coordinator.on_lost()
            finally:
                await self.leadership.release()
                self._log.info("leadership ended")

    async def _tick_once(self) -> None:
        if asyncio.get_running_loop().time() - self._verified_at > PROOF_SECONDS:
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
        rested_at = monotonic()
        await self._catch_breath(took)
        await self._wait_for_work()
        self._sprinted = max(0.0, self._sprinted - (monotonic() - rested_at))

    async def _record_error(self) -> None:
        """For people who ask another process than this one. Once, however often the tick fails that way."""
        error = self.status.last_error
        if error is None or error == self._recorded_error:
            return
        async with self.leadership.statement() as session:
            await terms.record_error(session, self.leadership.name, error)
        self._recorded_error = error

    async def _look_for_rivals(self) -> None:
        """Replicas with different lock ids each elect a leader, and all of these write the same rows."""
        now = asyncio.get_running_loop().time()
        if now < self._rivals_at:
            return
        self._rivals_at = now + RIVALS_SECONDS
        async with self.leadership.statement() as session:
            found = terms.rivals_of(self.leadership.name, (await terms.read_terms(session)).values())
        RIVALS.labels(self.coordinator.name).set(len(found))
        for rival in found:
            self._log.error(
                "two leaders of one coordinator: replicas differ in COORDINATOR_LOCK_ID, give all the same",
                lock=self.leadership.name,
                other_lock=rival.lock_name,
                other_holder=rival.holder_id,
            )

    async def _catch_breath(self, took: float) -> None:
        """Fast when there is little to do, never a flood: after a few ticks at most half of the time is spent
        ticking. A tick that took long mostly waited for somebody else: resting as long would add to that.
        """
        effort = max(took, SHORTEST_PAUSE_SECONDS)
        self._sprinted += effort
        if self._sprinted > SPRINT_SECONDS:
            await self._pause(min(effort, LONGEST_PAUSE_SECONDS))

    async def _wait_for_work(self) -> None:
        wait = _jittered(self.coordinator.next_wait_seconds())
        due = monotonic() + wait
        await self.coordinator.wake_signal.wait(wait)
        if self.leadership.lost.is_set():
            raise LeadershipLost("noticed while waiting")
        TICK_LAG.labels(self.coordinator.name).observe(max(0.0, monotonic() - due))

    async def _elected_or_stopping(self) -> bool:
        """Run for election, but let a stop interrupt the queueing."""
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
    async def _proving_leadership(self) -> AsyncIterator[None]:
        """Verify beside the ticks: long ticks must not act on old knowledge, idle sessions must speak."""

        async def prove() -> None:
            interval = _jittered(self._timing.verify_seconds)
            while True:
                left = self._verified_at + interval - asyncio.get_running_loop().time()
                if left > SHORTEST_PAUSE_SECONDS:  # a tick has verified, too: the next is due that long after
                    await asyncio.sleep(left)
                    continue
                interval = _jittered(self._timing.verify_seconds)
                try:
                    await self._verify()
                except LeadershipLost:
                    self.coordinator.wake_signal.set()  # end the wait: the loop finds it has lost
                    return

        self._verified_at = asyncio.get_running_loop().time()  # winning the election was as good
        task = asyncio.create_task(prove(), name=f"prove-{self.coordinator.name}")
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
        await self._look_for_rivals()

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
        else:
            self._log.error("tick failed", error=self.status.last_error, exc_info=error)


def _jittered(seconds: float) -> float:
    return seconds * random.uniform(1 - JITTER, 1 + JITTER)
