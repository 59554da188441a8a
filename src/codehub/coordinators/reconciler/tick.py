"""The Reconciler: reads what is wanted and what was seen, and takes one step at a time.

One tick: load what is in flight and what is due, ask ``domain/plan`` about each, and write the answers
(completions, failures, claims) in one short transaction. Only then do actions start, beside the loop
(``worker.Worker``). Nothing here waits for an engine while a transaction is open. What was loaded may have
changed by the time it is written about: each write compares, and the next tick sees what it met.

If the process dies after the commit and before an action began, the next leader finds the operation in
flight without an actor and adopts it: same op_id, higher epoch, no error counted.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import assert_never

import structlog
from prometheus_client import Counter as Total
from prometheus_client import Gauge, Histogram

from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.reconciler.batch import Completion, TickBatch
from codehub.coordinators.reconciler.breakers import CircuitBreakers
from codehub.coordinators.reconciler.executions import Executions, lane_of
from codehub.coordinators.reconciler.worker import Worker
from codehub.coordinators.wake_signal import WakeSignal
from codehub.domain import home
from codehub.domain.plan import (
    Act,
    Claim,
    Complete,
    Crashed,
    Decision,
    Expire,
    Fail,
    Halt,
    Mark,
    Skip,
    Wait,
    plan,
)
from codehub.domain.policy import Policy
from codehub.domain.states import HealthStatus, Operation
from codehub.domain.workspace import WorkspaceView
from codehub.kit.clock import monotonic
from codehub.kit.remote_clock import RemoteClock
from codehub.signals.hints import Hint
from codehub.store.cluster import terms as terms
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Session
from codehub.store.workspaces import bulk_claims, claims, due
from codehub.store.workspaces.bulk_claims import Step
from codehub.store.workspaces.due import Lane, Work

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


class Reconciler:
    name = "wc"

    def __init__(
        self,
        *,
        leadership: Leadership,
        worker: Worker,
        executions: Executions,
        breakers: CircuitBreakers,
        wake_signal: WakeSignal,
        clock: RemoteClock,
        policy: Policy,
        timing: Timing,
        observer_lock: str,
    ) -> None:
        self.wake_signal = wake_signal
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
        self._last = TickBatch(now=clock.now(), may_claim=False, free={})

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
        del hint  # a hint only wakes; what to do is read from the rows
        await self._probe_engines()
        batch = await self._load_and_decide()
        if batch.to_write():
            write = self._lead.statement if batch.is_one_statement else self._lead.transaction
            async with write(actor="reconciler") as session:
                await self._write(session, batch)
        self._last = batch
        self._executions.short_of_slots = batch.short_of_slots  # before the first of them can end
        self._act(batch)
        IN_FLIGHT.set(self._executions.running())
        await self._record_now_and_then(busy=batch.changed > 0)
        return TickReport(
            seen=batch.seen, changed=batch.changed, started=len(batch.to_run), failed=batch.failed
        )

    def next_wait_seconds(self) -> float:
        wait = self._timing.idle_seconds
        if self._last.unmet:
            wait = self._timing.converge_seconds
        if self._executions.running() or self._last.seen > self._last.unmet:
            wait = self._timing.active_seconds
        if not self._last.may_claim:  # the Observer's next look may be all that is missing
            wait = min(wait, STALE_SECONDS)
        probe_at = self._breakers.next_probe_at()
        if probe_at is not None:
            wait = min(wait, max(0.0, (probe_at - self._clock.now()).total_seconds()))
        return wait

    async def _record_now_and_then(self, *, busy: bool) -> None:
        """For people who ask who leads what: news at once, otherwise not while somebody waits for a step."""
        detail = {"away": self._breakers.away()}
        late = monotonic() - self._record_at
        if detail != self._recorded or late >= (BUSY_RECORD_SECONDS if busy else 0):
            async with self._lead.statement() as session:
                await terms.record_tick(session, self._lead.name, detail=detail)
            self._recorded, self._record_at = detail, monotonic() + RECORD_SECONDS

    async def _probe_engines(self) -> None:
        now = self._clock.now()
        if self._breakers.next_probe_at() is not None:
            await self._breakers.probe_due(now=now)
        await self._breakers.look_at_archives(now=now)

    async def _load_and_decide(self) -> TickBatch:
        may_claim = await self._is_observed()
        async with self._lead.statement() as session:
            found = await self._load(session, everything=may_claim)
        self._clock.set(session.now)
        batch = TickBatch(
            now=session.now,
            may_claim=may_claim,
            free={lane: self._executions.free(lane) for lane in Lane},
            seen=len(found.in_flight) + len(found.waiting),
            unmet=len(found.waiting),
        )
        for ws in (*found.in_flight, *found.waiting):
            self._judge(self._executions.recall(ws), batch)
        self._executions.forget_older_than(batch.now - MEMORY_OF_ATTEMPTS)
        return batch

    async def _is_observed(self) -> bool:
        """Whether the Observer's last whole look is fresh enough; what was read of it can only be older."""
        stale_after = self._policy.observer_stale_after
        if self._observed_at is None or self._clock.now() - self._observed_at > stale_after / 2:
            async with self._lead.statement() as session:
                self._observed_at = await terms.last_tick_at(session, self._observer_lock)
            self._clock.set(session.now)
        return self._observed_at is not None and self._clock.now() - self._observed_at <= stale_after

    async def _load(self, session: Session, *, everything: bool) -> Work:
        retried_before = self._clock.now() - self._policy.retry_backoff * (1 - self._policy.jitter)
        if not everything:
            return Work(await due.load_in_flight(session, retried_before=retried_before), {})
        work = await due.load_work(session, limit=self._timing.batch_size, retried_before=retried_before)
        for lane, found in work.due.items():
            DUE.labels(lane.value).set(len(found))
        return work

    def _judge(self, ws: WorkspaceView, batch: TickBatch) -> None:
        """Decide about one workspace; one that cannot be judged harms nobody else."""
        try:
            self._sort(ws, self._decide(ws, batch), batch)
        except Exception as error:
            log.error("workspace cannot be judged", workspace_id=str(ws.id), exc_info=error)
            batch.failed += 1

    def _decide(self, ws: WorkspaceView, batch: TickBatch) -> Decision:
        excused = (
            self._breakers.timeout_counts_from(ws.operation) if ws.operation is not Operation.NONE else None
        )
        attempt = self._executions.attempt(ws, timeout_counts_from=excused)
        if ws.operation is Operation.NONE and attempt.acting:
            return Wait("an action of an earlier operation is still ending")
        return plan(ws, now=batch.now, policy=self._policy, attempt=attempt)

    def _sort(self, ws: WorkspaceView, decision: Decision, batch: TickBatch) -> None:
        match decision:
            case Skip() | Wait():
                return
            case Claim(operation=operation):
                if self._has_slot(operation, batch, among=batch.wanted):
                    batch.to_claim.append((ws, operation))
            case Act():
                if self._has_slot(ws.operation, batch, among=batch.taken):
                    batch.to_run.append(ws)
            case Complete():
                batch.to_complete.append(self._completion(ws, batch))
            case Fail():
                batch.to_fail.append((ws, decision))
            case Expire():
                if batch.may_claim:  # without a fresh look nothing is timed out
                    batch.to_expire.append((ws, decision))
            case Halt():
                batch.to_halt.append((ws, decision))
            case Mark():
                batch.to_mark.append(ws)
            case Crashed():
                batch.to_examine.append((ws, decision))
            case _:
                assert_never(decision)

    async def _write(self, session: Session, batch: TickBatch) -> None:
        """In a handful of statements: a hundred people who arrive together cost little more than one.

        The rows are locked before the first of them, in the order everybody keeps (``row_locks``).
        """
        await lock_in_order(session, batch.to_write())
        await self._complete(session, batch)
        for ws, halt in batch.to_halt:
            if await claims.set_error_without_operation(session, ws, halt.error, home=ws.home):
                batch.changed += 1
        for ws in batch.to_mark:
            await self._mark(session, ws, batch)
        await self._claim(session, batch)

    def _completion(self, ws: WorkspaceView, batch: TickBatch) -> Completion:
        """Planned on at once: the next step of a walk need not wait for the next tick."""
        after = replace(
            ws,
            operation=Operation.NONE,
            error_count=0,
            error_info=None,
            last_retry_at=None,
            home=home.at_completion(ws, now=batch.now),
        )
        return Completion(ws, after, self._next_step(after, batch))

    async def _complete(self, session: Session, batch: TickBatch) -> None:
        if not batch.to_complete:
            return
        written = await bulk_claims.complete_all(
            session,
            [
                bulk_claims.Completion(claims.Claim.of(each.of), each.after.home, each.of.op_acted_at)
                for each in batch.to_complete
            ],
        )
        going_on = []
        for each in batch.to_complete:
            ws = each.of
            if ws.id not in written:
                log.info("completion dropped: another owner", workspace_id=str(ws.id), op_id=str(ws.op_id))
                continue
            self._count_completion(ws, batch)
            if each.then is not None:
                going_on.append((each.after, each.then))
        batch.to_claim[:0] = going_on  # not behind new walks

    def _count_completion(self, ws: WorkspaceView, batch: TickBatch) -> None:
        batch.changed += 1
        OPERATIONS.labels(ws.operation.value, "done").inc()
        if ws.op_started_at is not None:
            elapsed = (batch.now - ws.op_started_at).total_seconds()
            OPERATION_SECONDS.labels(ws.operation.value).observe(elapsed)
        log.info(
            "operation complete", workspace_id=str(ws.id), op_id=str(ws.op_id), operation=ws.operation.value
        )

    async def _mark(self, session: Session, ws: WorkspaceView, batch: TickBatch) -> None:
        kept = home.marked(ws.home)
        if await claims.mark_home(session, ws, home=kept):
            log.info("home marked", workspace_id=str(ws.id))
            batch.changed += 1
            after = replace(ws, home=kept)
            then = self._next_step(after, batch)
            if then is not None:
                batch.to_claim.append((after, then))

    def _next_step(self, ws: WorkspaceView, batch: TickBatch) -> Operation | None:
        if ws.health_status is not HealthStatus.OK or self._executions.is_busy(ws.id):
            return None
        decision = plan(ws, now=batch.now, policy=self._policy)
        return decision.operation if isinstance(decision, Claim) else None

    async def _claim(self, session: Session, batch: TickBatch) -> None:
        """Into free slots only: waiting for one uses up nobody's time limit."""
        admitted = [
            Step(ws, operation, home.at_claim(ws, operation))
            for ws, operation in batch.to_claim
            if batch.may_claim and self._has_slot(operation, batch, among=batch.taken)
        ]
        if not admitted:
            return
        claimed = await bulk_claims.claim_all(session, admitted)
        for step in admitted:
            claim = claimed.get(step.workspace.id)
            if claim is None:  # a wish or an observation came in between: the next tick sees it
                continue
            batch.changed += 1
            batch.to_run.append(
                replace(
                    step.workspace,
                    operation=step.operation,
                    op_id=claim.op_id,
                    op_seq=claim.op_seq,
                    op_started_at=batch.now,
                    op_acted_at=None,
                    error_count=0,
                    last_retry_at=None,
                    home=step.home,
                )
            )

    def _has_slot(self, operation: Operation, batch: TickBatch, *, among: Counter[Lane]) -> bool:
        """Whether one more of these fits into the slots of its lane, while its engines are here."""
        lane = lane_of(operation)
        if not self._breakers.are_here(operation):
            return False
        if among[lane] >= batch.free[lane]:
            batch.short_of_slots = True
            return False
        among[lane] += 1
        return True

    def _act(self, batch: TickBatch) -> None:
        """After the commit: let the decided actions begin beside the loop."""
        for ws in batch.to_run:
            self._worker.run(ws)
        for ws, expire in batch.to_expire:
            self._worker.expire(ws, expire.error)
        for ws, fail in batch.to_fail:
            self._worker.fail(ws, fail.failure)
        for ws, crash in batch.to_examine:
            self._worker.examine_crash(ws, crash)
