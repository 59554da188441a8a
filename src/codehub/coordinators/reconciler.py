"""The Reconciler: reads what is wanted and what was seen, and takes one step at a time.

One tick is one short transaction: load what is in flight and what is due, ask ``domain/plan`` about each,
write the answers (completions, failures, claims) and commit. Only then do actions start, beside the loop
(``writeback.Worker``). Nothing here waits for an engine while a transaction is open.

If the process dies after the commit and before an action began, the next leader finds the operation in
flight without an actor and adopts it: same op_id, higher epoch, no error counted.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import assert_never

import structlog
from prometheus_client import Counter, Gauge, Histogram
from sqlalchemy.ext.asyncio import AsyncSession

from codehub.coordinators.engines import Engines
from codehub.coordinators.executions import Executions, lane_of
from codehub.coordinators.leadership import Leadership
from codehub.coordinators.loop import TickReport
from codehub.coordinators.wakeups import Wakeups
from codehub.coordinators.worker import Worker
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
from codehub.kit.remote_clock import RemoteClock
from codehub.services import access
from codehub.signals.hints import Hint
from codehub.store import claims, due, statements
from codehub.store import leadership as terms
from codehub.store.context import set_actor
from codehub.store.due import Lane

log = structlog.get_logger(__name__)

STALE_SECONDS = 1.0
MEMORY_OF_ATTEMPTS = timedelta(hours=1)

OPERATIONS = Counter("codehub_operations_total", "Operations that ended", ["operation", "outcome"])
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


@dataclass
class Round:
    """What one tick found and decided; actions begin only once its transaction is committed."""

    now: datetime
    may_claim: bool
    to_run: list[WorkspaceView] = field(default_factory=list)
    to_expire: list[tuple[WorkspaceView, Expire]] = field(default_factory=list)
    to_fail: list[tuple[WorkspaceView, Fail]] = field(default_factory=list)
    to_examine: list[WorkspaceView] = field(default_factory=list)
    taken: dict[Lane, int] = field(default_factory=lambda: dict.fromkeys(Lane, 0))
    seen: int = 0
    changed: int = 0
    failed: int = 0
    unmet: int = 0
    short_of_slots: bool = False


class Reconciler:
    name = "wc"

    def __init__(
        self,
        *,
        leadership: Leadership,
        worker: Worker,
        executions: Executions,
        engines: Engines,
        wakeups: Wakeups,
        clock: RemoteClock,
        policy: Policy,
        timing: Timing,
        observer_lock: str,
    ) -> None:
        self.wakeups = wakeups
        self._lead = leadership
        self._worker = worker
        self._executions = executions
        self._engines = engines
        self._clock = clock
        self._policy = policy
        self._timing = timing
        self._observer_lock = observer_lock
        self._last = Round(now=clock.now(), may_claim=False)

    async def on_elected(self) -> None:
        self._worker.begin_term()

    async def on_lost(self) -> None:
        await self._executions.cancel_all()
        IN_FLIGHT.set(0)

    async def tick(self, hint: Hint | None) -> TickReport:
        del hint  # a hint only wakes; what to do is read from the rows
        await self._probe_engines()
        async with self._lead.transaction() as session:
            await set_actor(session, "reconciler")
            round_ = await self._load_and_decide(session)
            await terms.record_tick(session, self._lead.name, detail={"away": self._engines.away()})
        self._act(round_)
        self._last = round_
        self._executions.short_of_slots = round_.short_of_slots
        IN_FLIGHT.set(self._executions.running())
        return TickReport(
            seen=round_.seen, changed=round_.changed, started=len(round_.to_run), failed=round_.failed
        )

    def next_wait_seconds(self) -> float:
        wait = self._timing.idle_seconds
        if self._last.unmet:
            wait = self._timing.converge_seconds
        if self._executions.running() or self._last.seen > self._last.unmet:
            wait = self._timing.active_seconds
        if not self._last.may_claim:  # the Observer's next look may be all that is missing
            wait = min(wait, STALE_SECONDS)
        probe_at = self._engines.next_probe_at()
        if probe_at is not None:
            wait = min(wait, max(0.0, (probe_at - self._clock.now()).total_seconds()))
        return wait

    async def _probe_engines(self) -> None:
        if self._engines.next_probe_at() is not None:
            await self._engines.probe_due(now=self._clock.now())

    async def _load_and_decide(self, session: AsyncSession) -> Round:
        now = await statements.now(session)
        self._clock.set(now)
        observed_at = await terms.last_tick_at(session, self._observer_lock)
        fresh = observed_at is not None and now - observed_at <= self._policy.observer_stale_after
        round_ = Round(now=now, may_claim=fresh)
        shortest = self._policy.retry_backoff * (1 - self._policy.jitter)
        in_flight = await due.load_in_flight(session, retried_before=now - shortest)
        waiting = await self._load_due(session, round_, retried_before=now - shortest) if fresh else []
        round_.seen = len(in_flight) + len(waiting)
        round_.unmet = len(waiting)
        # In the order of ids, as everybody who writes several rows: nobody waits for each other.
        for ws in sorted([*in_flight, *waiting], key=lambda each: each.id):
            await self._step(session, ws, round_)
        self._executions.forget_older_than(now - MEMORY_OF_ATTEMPTS)
        return round_

    async def _load_due(
        self, session: AsyncSession, round_: Round, *, retried_before: datetime
    ) -> list[WorkspaceView]:
        rows: list[WorkspaceView] = []
        for lane in Lane:
            found = await due.load_due(
                session, lane, limit=self._timing.batch_size, retried_before=retried_before
            )
            DUE.labels(lane.value).set(len(found))
            rows.extend(found)
        return rows

    async def _step(self, session: AsyncSession, ws: WorkspaceView, round_: Round) -> None:
        """Decide about one workspace and write it; one that cannot be judged harms nobody else."""
        try:
            decision = self._decide(ws, round_)
        except Exception as error:
            log.error("workspace cannot be judged", workspace_id=str(ws.id), exc_info=error)
            round_.failed += 1
            return
        await self._apply(session, ws, decision, round_)

    def _decide(self, ws: WorkspaceView, round_: Round) -> Decision:
        excused = self._engines.excused_until(ws.operation) if ws.operation is not Operation.NONE else None
        attempt = self._executions.attempt(ws, excused_until=excused)
        if ws.operation is Operation.NONE and attempt.acting:
            return Wait("an action of an earlier operation is still ending")
        return plan(ws, now=round_.now, policy=self._policy, attempt=attempt)

    async def _apply(
        self, session: AsyncSession, ws: WorkspaceView, decision: Decision, round_: Round
    ) -> None:
        match decision:
            case Skip() | Wait():
                return
            case Claim(operation=operation):
                await self._claim(session, ws, operation, round_)
            case Act():
                self._take_slot(ws, round_)
            case Complete():
                await self._complete(session, ws, round_)
            case Fail():
                round_.to_fail.append((ws, decision))
            case Expire():
                if round_.may_claim:  # without a fresh look nothing is timed out
                    round_.to_expire.append((ws, decision))
            case Halt(error=error):
                if await claims.set_error_without_operation(session, ws, error, home=ws.home):
                    round_.changed += 1
            case Mark():
                await self._mark(session, ws, round_)
            case Crashed():
                round_.to_examine.append(ws)
            case _:
                assert_never(decision)

    async def _claim(
        self, session: AsyncSession, ws: WorkspaceView, operation: Operation, round_: Round
    ) -> None:
        lane = lane_of(operation)
        if not round_.may_claim or not self._engines.are_here(operation) or not self._has_slot(lane, round_):
            return
        kept = home.at_claim(ws, operation)
        claim = await claims.claim(session, ws, operation, home=kept)
        if claim is None:  # a wish or an observation came in between: the next tick sees it
            return
        round_.changed += 1
        round_.taken[lane] += 1
        round_.to_run.append(
            replace(
                ws,
                operation=operation,
                op_id=claim.op_id,
                op_seq=claim.op_seq,
                op_started_at=round_.now,
                op_acted_at=None,
                error_count=0,
                last_retry_at=None,
                home=kept,
            )
        )

    def _take_slot(self, ws: WorkspaceView, round_: Round) -> None:
        lane = lane_of(ws.operation)
        if self._engines.are_here(ws.operation) and self._has_slot(lane, round_):
            round_.taken[lane] += 1
            round_.to_run.append(ws)

    def _has_slot(self, lane: Lane, round_: Round) -> bool:
        if self._executions.free(lane) > round_.taken[lane]:
            return True
        round_.short_of_slots = True
        return False

    async def _complete(self, session: AsyncSession, ws: WorkspaceView, round_: Round) -> None:
        kept = home.at_completion(ws, now=round_.now)
        if not await claims.complete(session, claims.Claim.of(ws), home=kept):
            log.info("completion dropped: another owner", workspace_id=str(ws.id), op_id=str(ws.op_id))
            return
        await access.touch(session, ws.id)
        round_.changed += 1
        OPERATIONS.labels(ws.operation.value, "done").inc()
        if ws.op_started_at is not None:
            elapsed = (round_.now - ws.op_started_at).total_seconds()
            OPERATION_SECONDS.labels(ws.operation.value).observe(elapsed)
        log.info(
            "operation complete", workspace_id=str(ws.id), op_id=str(ws.op_id), operation=ws.operation.value
        )
        # Plan on at once: the next step of a walk need not wait for the next tick.
        done = replace(
            ws, operation=Operation.NONE, error_count=0, error_info=None, last_retry_at=None, home=kept
        )
        if done.health_status is HealthStatus.OK and not self._executions.is_busy(ws.id):
            await self._plan_on(session, done, round_)

    async def _mark(self, session: AsyncSession, ws: WorkspaceView, round_: Round) -> None:
        kept = home.marked(ws.home)
        if await claims.mark_home(session, ws, home=kept):
            log.info("home marked", workspace_id=str(ws.id))
            round_.changed += 1
            await self._plan_on(session, replace(ws, home=kept), round_)

    async def _plan_on(self, session: AsyncSession, ws: WorkspaceView, round_: Round) -> None:
        match plan(ws, now=round_.now, policy=self._policy):
            case Claim(operation=operation):
                await self._claim(session, ws, operation, round_)
            case _:
                pass

    def _act(self, round_: Round) -> None:
        """After the commit: let the decided actions begin beside the loop."""
        for ws in round_.to_run:
            self._worker.run(ws)
        for ws, expire in round_.to_expire:
            self._worker.expire(ws, expire.error)
        for ws, fail in round_.to_fail:
            self._worker.fail(ws, fail.failure)
        for ws in round_.to_examine:
            self._worker.examine_crash(ws)
