"""Reconciler: drive workspaces to their desired state, one operation at a time.

One tick, in order: load what is in flight and what is due; ``domain/tick_plan`` decides about all of it;
``store/workspaces/transitions`` writes completions, errors and claims in one short transaction; only then do
actions start, beside the loop (``worker.Worker``). No I/O but the database's happens in between. Rows may
have changed since they were loaded: each write is a compare-and-set, and the next tick loads them again.

If the process dies after the commit and before an action began, the next leader finds the operation in
flight without an actor and adopts it: same op_id, higher epoch, no error counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

import structlog
from prometheus_client import Counter as Total
from prometheus_client import Gauge, Histogram

from codehub.coordinators.control_store import ReconcilerStore
from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.reconciler.breakers import CircuitBreakers
from codehub.coordinators.reconciler.executions import Executions
from codehub.coordinators.reconciler.worker import Worker
from codehub.coordinators.wake_signal import WakeSignal
from codehub.domain.policy import ErrorPolicy
from codehub.domain.tick_plan import (
    BeginOperation,
    CompleteOperation,
    ExpireAction,
    FailAction,
    HaltWorkspace,
    Lane,
    MarkHome,
    RecordCrash,
    RunAction,
    Slots,
    SwitchHome,
    Transition,
    Unplannable,
    Written,
    plan_tick,
)
from codehub.kit.clock import monotonic
from codehub.kit.remote_clock import RemoteClock
from codehub.signals.hints import Hint
from codehub.store.db.session import Session
from codehub.store.workspaces import transitions
from codehub.store.workspaces.due import DueWork
from codehub.store.workspaces.transitions import Applied

log = structlog.get_logger(__name__)

STALE_SECONDS = 1.0
RECORD_SECONDS = 1.0
BUSY_RECORD_SECONDS = 10.0
MEMORY_OF_ATTEMPTS = timedelta(hours=1)

OPERATIONS = Total("codehub_operations_total", "Operations that ended", ["operation", "outcome"])
OPERATION_SECONDS = Histogram(
    "codehub_operation_duration_seconds",
    "From the claim to the observed target",
    ["operation"],
    buckets=(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
)
IN_FLIGHT = Gauge("codehub_operations_in_flight", "Actions running in this process")
DUE = Gauge("codehub_workspaces_due", "Workspaces seen to need a step in the last tick", ["lane"])


@dataclass(frozen=True)
class Timing:
    idle_seconds: float = 10.0
    active_seconds: float = 2.0
    converge_seconds: float = 5.0
    batch_size: int = 200


@dataclass(frozen=True)
class _LastTick:
    """Counts of the last tick, which decide the next wait."""

    in_flight: int = 0
    waiting: int = 0
    observed: bool = False


class Reconciler:
    """Coordinator that claims, runs and completes operations."""

    name = "wc"

    def __init__(
        self,
        *,
        store: ReconcilerStore,
        leadership: Leadership,
        worker: Worker,
        executions: Executions,
        breakers: CircuitBreakers,
        wake_signal: WakeSignal,
        clock: RemoteClock,
        policy: ErrorPolicy,
        timing: Timing,
        observer_lock: str,
    ) -> None:
        self.wake_signal = wake_signal
        self._store = store
        self._lead = leadership
        self._worker = worker
        self._executions = executions
        self._breakers = breakers
        self._clock = clock
        self._policy = policy
        self._timing = timing
        self._observer_lock = observer_lock
        self._recorded: Mapping[str, object] | None = None
        self._record_at = 0.0
        self._observed_at: datetime | None = None
        self._last = _LastTick()

    async def on_elected(self) -> None:
        self._worker.begin_term()
        self._clock.set(self._lead.now)
        self._recorded = None
        self._observed_at = None

    async def on_lost(self) -> None:
        await self._executions.cancel_all()
        await self._breakers.close()
        IN_FLIGHT.set(0)

    async def tick(self, hint: Hint | None) -> TickReport:
        del hint  # a hint only wakes the loop; the work is read from the rows
        await self._probe_backends()
        observed = await self._is_observed()
        work = await self._load(everything=observed)
        planned = self._plan(work, observed=observed)
        written = [each for each in planned if isinstance(each, Written)]
        applied = await transitions.apply(self._store, self._lead, written, actor="reconciler")
        self._report(applied)
        started = self._act(planned, applied)
        self._last = _LastTick(len(work.in_flight), len(work.waiting), observed)
        IN_FLIGHT.set(self._executions.running())
        await self._record_tick(busy=applied.changed > 0)
        return TickReport(
            seen=len(work.in_flight) + len(work.waiting),
            changed=applied.changed,
            started=started,
            failed=sum(1 for each in planned if isinstance(each, Unplannable)),
        )

    def next_wait_seconds(self) -> float:
        wait = self._timing.idle_seconds
        if self._last.waiting:
            wait = self._timing.converge_seconds
        if self._executions.running() or self._last.in_flight:
            wait = self._timing.active_seconds
        if not self._last.observed:  # the Observer's next observation may be all that is missing
            wait = min(wait, STALE_SECONDS)
        probe_at = self._breakers.next_probe_at()
        if probe_at is not None:
            wait = min(wait, max(0.0, (probe_at - self._clock.now()).total_seconds()))
        return wait

    async def _probe_backends(self) -> None:
        now = self._clock.now()
        if self._breakers.next_probe_at() is not None:
            await self._breakers.probe_due(now=now)
        await self._breakers.check_archives(now=now)

    async def _is_observed(self) -> bool:
        """Whether the Observer's last full observation is fresh enough.

        Its time is read again when half of ``observer_stale_after`` has passed. A value read earlier is safe: the
        real one can only be newer.
        """
        stale_after = self._policy.observer_stale_after
        if self._observed_at is None or self._clock.now() - self._observed_at > stale_after / 2:
            async with self._lead.statement() as session:
                self._observed_at = await self._store.last_tick_at(session, self._observer_lock)
            self._clock.set(session.now)
        return self._observed_at is not None and self._clock.now() - self._observed_at <= stale_after

    async def _load(self, *, everything: bool) -> DueWork:
        async with self._lead.statement() as session:
            work = await self._load_work(session, everything=everything)
        self._clock.set(session.now)
        return work

    async def _load_work(self, session: Session, *, everything: bool) -> DueWork:
        retried_before = self._clock.now() - self._policy.retry_backoff * (1 - self._policy.jitter)
        if not everything:
            return DueWork(await self._store.load_in_flight(session, retried_before=retried_before), {})
        work = await self._store.load_work(
            session, limit=self._timing.batch_size, retried_before=retried_before
        )
        for lane, found in work.due.items():
            DUE.labels(lane.value).set(len(found))
        return work

    def _plan(self, work: DueWork, *, observed: bool) -> Sequence[Transition]:
        now = self._clock.now()
        rows = [*work.in_flight, *work.waiting]
        self._executions.forget_older_than(now - MEMORY_OF_ATTEMPTS)
        slots = Slots(
            free={lane: self._executions.free(lane) for lane in Lane},
            available=self._breakers.available(),
            observed=observed,
        )
        attempts = self._executions.attempts(rows, timeout_counts_from=self._breakers.timeout_counts_from)
        return plan_tick(rows, now=now, policy=self._policy, slots=slots, attempts=attempts)

    def _report(self, applied: Applied) -> None:
        """Log and count what was applied."""
        for done in applied.completed:
            ws = done.workspace
            OPERATIONS.labels(ws.operation.value, "done").inc()
            if ws.op_started_at is not None:
                elapsed = (self._clock.now() - ws.op_started_at).total_seconds()
                OPERATION_SECONDS.labels(ws.operation.value).observe(elapsed)
            log.info(
                "operation complete",
                workspace_id=str(ws.id),
                op_id=str(ws.op_id),
                operation=ws.operation.value,
            )
        for dropped in applied.dropped:
            ws = dropped.workspace
            log.info("completion dropped: another owner", workspace_id=str(ws.id), op_id=str(ws.op_id))
        for mark in applied.marked:
            log.info("home marked", workspace_id=str(mark.workspace.id))
        for switch in applied.switched:
            log.info(
                "archive switched",
                workspace_id=str(switch.workspace.id),
                archive_key=switch.after.archive_key,
                left=switch.workspace.archive_key,
            )

    def _act(self, planned: Sequence[Transition], applied: Applied) -> int:
        """After the commit: start actions beside the loop; returns how many were started."""
        started = [each.workspace for each in planned if isinstance(each, RunAction)]
        started += applied.begun
        for ws in started:
            self._worker.run(ws)
        for transition in planned:
            match transition:
                case ExpireAction(workspace=ws, error=error):
                    self._worker.expire(ws, error)
                case FailAction(workspace=ws, failure=failure):
                    self._worker.fail(ws, failure)
                case RecordCrash(workspace=ws, crash=crash):
                    self._worker.examine_crash(ws, crash)
                case Unplannable(workspace=ws, error=bug):
                    log.error("workspace cannot be planned", workspace_id=str(ws.id), exc_info=bug)
                case RunAction() | BeginOperation() | CompleteOperation():
                    pass  # started above, or written by ``transitions``
                case MarkHome() | SwitchHome() | HaltWorkspace():
                    pass  # written by ``transitions``
                case _:
                    assert_never(transition)
        return len(started)

    async def _record_tick(self, *, busy: bool) -> None:
        """Record the tick for ``/health/coordinator``: a change at once, otherwise every 1 s, 11 s while busy."""
        detail = {"away": self._breakers.away()}
        overdue = monotonic() - self._record_at
        if detail != self._recorded or overdue >= (BUSY_RECORD_SECONDS if busy else 0):
            async with self._lead.statement() as session:
                await self._store.record_tick(session, self._lead.name, detail=detail)
            self._recorded, self._record_at = detail, monotonic() + RECORD_SECONDS
