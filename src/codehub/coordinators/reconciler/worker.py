"""Run the Reconciler's actions and write their outcomes. Fenced.

The effect happens with no transaction open. If it only has to be observed, the Observer is hinted at once, and
the tick that finds it observed writes the completion. Any other outcome is written in one short transaction on
the coordinator's own connection, by the task that ran the action. A write that matches no row means that the
operation has another owner: the result is dropped, and the owner repeats the action, which is idempotent.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import assert_never
from uuid import UUID

import structlog
from prometheus_client import Counter

from codehub.coordinators.control_store import ReconcilerStore
from codehub.coordinators.leadership import Leadership, LeadershipLost
from codehub.coordinators.reconciler.actions import Acted, Actions, Archived, Call, Effect, Restored
from codehub.coordinators.reconciler.breakers import CircuitBreakers
from codehub.coordinators.reconciler.executions import Execution, Executions
from codehub.coordinators.reconciler.outcomes import HINTED_AFTER, Outcome
from codehub.coordinators.wake_signal import CoordinatorHints
from codehub.domain import home
from codehub.domain.causes import Cause, CauseCode
from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, ErrorInfo, FailureCode
from codehub.domain.plan import Crashed, crash_error
from codehub.domain.policy import Drop, ErrorPolicy, GiveUp, Release, Retry, after_failure, release_archiving
from codehub.domain.states import STORAGE_OPERATIONS, Operation
from codehub.domain.tick_plan import lane_of
from codehub.domain.workspace import WorkspaceView
from codehub.kit.batching import Batched
from codehub.kit.remote_clock import RemoteClock
from codehub.kit.tasks import finish
from codehub.runtimes.base import FencingToken, ResourceLimits, Runtime, StorageProgress
from codehub.signals.hints import HintTarget
from codehub.store.db.session import Session
from codehub.store.workspaces.claims import ClaimedOperation

log = structlog.get_logger(__name__)

LOG_TAIL_BYTES = 4096

CRASHES = Counter("codehub_workspace_crashes_total", "Workspaces that ended unasked, by how", ["kind"])

ProgressSink = Callable[[WorkspaceView, StorageProgress], Awaitable[None]]
WaitSink = Callable[[WorkspaceView, str | None], Awaitable[None]]


async def _ignore_wait(_ws: WorkspaceView, _reason: str | None) -> None: ...


class NotMine(LeadershipLost):
    """The operation has another owner now."""


class Worker:
    """Runs actions in slots and writes how they ended."""

    def __init__(
        self,
        *,
        store: ReconcilerStore,
        leadership: Leadership,
        actions: Actions,
        runtime: Runtime,
        executions: Executions,
        breakers: CircuitBreakers,
        coordinator_hints: CoordinatorHints,
        clock: RemoteClock,
        policy: ErrorPolicy,
        on_progress: ProgressSink,
        on_wait: WaitSink = _ignore_wait,
        on_outcome: Callable[[Operation, str], None] = lambda _operation, _outcome: None,
        env: Callable[[WorkspaceView], Mapping[str, str]] = lambda _ws: {},
        limits: ResourceLimits | None = None,
    ) -> None:
        self._store = store
        self._lead = leadership
        self._actions = actions
        self._runtime = runtime
        self._executions = executions
        self._breakers = breakers
        self._coordinator_hints = coordinator_hints
        self._clock = clock
        self._policy = policy
        self._on_progress = on_progress
        self._on_wait = on_wait
        self._on_outcome = on_outcome
        self._env = env
        self._limits = limits or ResourceLimits()
        self._epoch = 0
        # One query for all actions that ended while the connection was busy with the previous one.
        # Pays for: POST → ready, 50 at once.
        self._ends = Batched(self._read_end, max_loads=1)

    def begin_term(self) -> None:
        self._epoch = self._lead.epoch

    def run(self, ws: WorkspaceView) -> None:
        """Execute the operation in flight of ``ws``."""
        self._executions.start(ws, partial(self._execute, ws), lane=lane_of(ws.operation))

    def fail(self, ws: WorkspaceView, failure: EffectError) -> None:
        """Fail one execution: its effect was never observed, or it hangs and is cancelled."""
        self._executions.replace(ws, partial(self._failed, ws, failure), lane=lane_of(ws.operation))

    def expire(self, ws: WorkspaceView, error: ErrorInfo) -> None:
        """Past its timeout: cancel, confirm gone, then go terminal.

        Archiving is given up for a while instead.
        """
        retry_at = None
        if ws.operation is Operation.ARCHIVING:
            released = release_archiving(ws, error, now=self._clock.now(), policy=self._policy)
            error, retry_at = released.error, released.retry_at
        give_up = partial(self._give_up, ws, error, retry_at=retry_at)
        self._executions.replace(ws, give_up, lane=lane_of(ws.operation))

    def examine_crash(self, ws: WorkspaceView, crash: Crashed) -> None:
        """Record a container that ended unasked: how it ended, and its last output."""
        self._executions.start(ws, partial(self._record_crash, ws, crash), lane=lane_of(Operation.STARTING))

    async def _execute(self, ws: WorkspaceView, execution: Execution) -> Outcome:
        bound = log.bind(workspace_id=str(ws.id), op_id=str(ws.op_id), operation=ws.operation.value)
        try:
            effect = await self._actions.perform(self._call(ws, execution))
        except LeadershipLost as error:
            bound.info("action dropped: not leading", error=str(error))
            return Outcome.DROPPED
        except EffectError as error:
            bound.warning("action failed", code=error.failure.value, error=error.message)
            return await self._failed(ws, error, execution)
        except Exception as error:  # noqa: BLE001 - a bug fails this operation, not the loop
            bound.error("action failed unexpectedly", exc_info=error)
            failure = EffectError(FailureCode.UNEXPECTED, f"Unexpected: {type(error).__name__}")
            return await self._failed(ws, failure, execution)
        self._breakers.succeeded(ws.operation, now=self._clock.now())
        return await self._record_effect(ws, effect, execution)

    def _call(self, ws: WorkspaceView, execution: Execution) -> Call:
        async def on_progress(progress: StorageProgress) -> None:
            execution.progress_at = self._clock.now()
            await self._on_progress(ws, progress)

        async def on_wait(reason: str | None) -> None:
            execution.progress_at = self._clock.now()  # the timeout counts from when a node took it
            await self._on_wait(ws, reason)

        return Call(
            ws=ws,
            token=FencingToken(ws.op_seq, self._epoch),
            on_progress=on_progress,
            on_wait=on_wait,
            assert_leading=self._lead.assert_recent,
            assert_mine=partial(self._assert_mine, ws),
            env=self._env(ws),
            limits=self._limits,
        )

    async def _assert_mine(self, ws: WorkspaceView) -> None:
        async def ask() -> bool:
            async with self._lead.transaction() as session:
                return await self._store.holds(session, ClaimedOperation.of(ws))

        if not await finish(ask()):
            raise NotMine("the operation has another owner")

    async def _record_effect(self, ws: WorkspaceView, effect: Effect, execution: Execution) -> Outcome:
        claim = ClaimedOperation.of(ws)
        match effect:
            case Acted():

                async def note_end() -> bool:
                    execution.acted_at = await self._ends.get(claim)
                    return True

                return await self._write(ws, note_end, Outcome.ACTED, hint=False)  # ``_read_end`` hints
            case Restored(archive_key=key, bound=bound):
                write = partial(self._mark_restored, ws, archive_key=key, bound=bound)
                return await self._write(ws, partial(self._in_transaction, write), Outcome.RESTORED)
            case Archived(archive_key=key, sizes=sizes, sha256=sha256):
                now = self._clock.now()
                at_commit = home.at_snapshot_commit if ws.home.keeps_volume else home.at_archive_commit
                kept = at_commit(ws.home, archive_key=key, sha256=sha256, sizes=sizes, now=now)
                write = partial(self._store.commit_archive_key, claim=claim, archive_key=key, home=kept)
                return await self._write(ws, partial(self._in_transaction, write), Outcome.ARCHIVED)
            case _:
                assert_never(effect)

    async def _mark_restored(
        self, ws: WorkspaceView, session: Session, *, archive_key: str, bound: bool
    ) -> bool:
        """Set the restore marker. ``bound``: the archive is known to be this workspace's own, else a note is added."""
        kept = home.at_restored(ws.home, archive_key=archive_key)
        written = await self._store.mark_restored(session, ClaimedOperation.of(ws), home=kept)
        if written and not bound:
            cause = Cause(CauseCode.RESTORED_UNBOUND).text
            await self._store.append_note(session, ws.id, actor="reconciler", cause=cause)
        return written

    async def _in_transaction(self, write: Callable[[Session], Awaitable[bool]], cause: str = "") -> bool:
        """Run one write of this operation. ``cause``: what the timeline says of it."""
        async with self._lead.transaction(actor="reconciler") as session:
            if cause:
                await self._store.set_actor(session, "reconciler", cause)
            return await write(session)

    async def _read_end(self, ended: Sequence[ClaimedOperation]) -> Mapping[ClaimedOperation, datetime]:
        """When these actions had ended, by the database's clock.

        Written with their completion. A leader that takes over before that does not know it, and runs the
        actions again.
        """
        now = await self._lead.database_time()
        await self._hint(Outcome.ACTED, [claim.workspace_id for claim in ended])
        return dict.fromkeys(ended, now)

    async def _failed(self, ws: WorkspaceView, failure: EffectError, execution: Execution) -> Outcome:
        """Count a failure, unless the backend as a whole is away: that is no workspace's failure."""
        now = self._clock.now()
        if await self._breakers.is_outage(failure, workspace_id=ws.id, now=now):
            return Outcome.OUTAGE
        claim = ClaimedOperation.of(ws)
        match after_failure(ws, failure, now=now, policy=self._policy):
            case Drop(highest_op_seq=highest):
                log.info("result dropped: a newer actor was here", workspace_id=str(ws.id))
                if highest is not None:
                    write = partial(self._store.catch_up, claim=claim, seen_op_seq=highest)
                    await self._write(ws, partial(self._in_transaction, write), Outcome.DROPPED)
                return Outcome.DROPPED
            case Retry(error=error):
                self._on_outcome(ws.operation, "retried")
                retry = partial(
                    self._store.record_failure, claim=claim, error=error, home=home.at_failure(ws)
                )
                return await self._write(
                    ws, partial(self._in_transaction, retry, error.message), Outcome.RETRYING
                )
            case GiveUp(error=error):
                return await self._give_up(ws, error, execution)
            case Release(error=error, retry_at=retry_at):
                return await self._give_up(ws, error, execution, retry_at=retry_at)

    async def _give_up(
        self, ws: WorkspaceView, error: ErrorInfo, execution: Execution, *, retry_at: datetime | None = None
    ) -> Outcome:
        """Go terminal, or give up until ``retry_at``.

        First confirm that nothing of the operation can still change the volume.
        """
        del execution
        try:
            await self._clean_up(ws)
        except (EffectError, LeadershipLost) as gone:
            log.warning("cannot confirm that nothing is left of it", workspace_id=str(ws.id), error=str(gone))
            return Outcome.DROPPED  # planned again at a later tick
        self._on_outcome(ws.operation, "failed")
        log.error(
            "operation gave up",
            workspace_id=str(ws.id),
            op_id=str(ws.op_id),
            operation=ws.operation.value,
            reason=error.reason.value,
            error=error.message,
        )
        claim = ClaimedOperation.of(ws)
        if retry_at is not None:
            given_up = ws.restore_from if ws.return_waits_for_archive else None
            snapshot = ws.snapshot_as if ws.volume_is_trusted else None
            kept = home.at_archiving_given_up(
                ws.home, retry_at=retry_at, return_given_up=error.message if given_up else None
            )
            release = partial(
                self._store.release,
                claim=claim,
                error=error,
                home=kept,
                return_given_up=given_up.archive_key if given_up else None,
                snapshot_given_up=snapshot.id if snapshot else None,
            )
            return await self._write(
                ws, partial(self._in_transaction, release, error.message), Outcome.RETRYING
            )
        write = partial(self._store.go_terminal, claim=claim, error=error)
        return await self._write(ws, partial(self._in_transaction, write, error.message), Outcome.GAVE_UP)

    async def _clean_up(self, ws: WorkspaceView) -> None:
        """End what still works on the volume; of a deleted workspace, remove container and volume.

        A deleted workspace may have been observed DELETED before this operation made a volume, and with the
        operation over it would not be observed again. If it is deleted after the query here, its observation
        begins later and finds the volume.
        """
        token = FencingToken(ws.op_seq, self._epoch)
        if ws.operation in STORAGE_OPERATIONS:
            self._lead.assert_recent()
            await self._actions.abandon(ws.id, token=token)
        if await self._is_deleted(ws):
            self._lead.assert_recent()
            await self._actions.remove_leftovers(ws.id, token=token)

    async def _is_deleted(self, ws: WorkspaceView) -> bool:
        async def ask() -> bool:
            async with self._lead.transaction() as session:
                if not await self._store.holds(session, ClaimedOperation.of(ws)):
                    raise NotMine("the operation has another owner")
                found = await self._store.find(session, ws.id)
            return found is not None and found.view.deleted_at is not None

        return await finish(ask())

    async def _record_crash(self, ws: WorkspaceView, crash: Crashed, execution: Execution) -> Outcome:
        del execution
        try:
            ending = await self._runtime.ending(ws.id)
        except EffectError as failure:
            log.info("how it ended is not known", workspace_id=str(ws.id), error=failure.message)
            return Outcome.OUTAGE  # planned again at a later tick
        if ending is None and not crash.soon:  # nothing to report: a machine that was rebooted, for example
            mark = partial(self._store.mark_home, workspace=ws, home=home.at_crash(ws.home, crashes=0))
            return await self._write(ws, partial(self._in_transaction, mark), Outcome.CRASH_RECORDED)
        ending = ending or Ending()
        tail = await self._log_tail(ws)
        error = crash_error(crash, ending, log_tail=tail, now=self._clock.now(), policy=self._policy)
        if crash.soon:
            self._on_outcome(Operation.STARTING, "failed" if error.is_terminal else "retried")
        CRASHES.labels(ending.kind.value).inc()
        log.warning(
            "workspace ended unasked",
            workspace_id=str(ws.id),
            kind=ending.kind.value,
            exit_code=ending.exit_code,
            crashes=error.error_count,
        )
        kept = home.at_crash(ws.home, crashes=crash.crashes)
        record = (
            partial(self._store.set_error_without_operation, workspace=ws, error=error, home=kept)
            if error.is_terminal
            else partial(self._store.record_crash, workspace=ws, error=error, home=kept, wait=crash.soon)
        )
        return await self._write(
            ws, partial(self._in_transaction, record, error.message), Outcome.CRASH_RECORDED
        )

    async def _log_tail(self, ws: WorkspaceView) -> str:
        """The last output. Failing to read it must not hide the crash."""
        tail = b""
        try:
            async for chunk in self._runtime.logs(ws.id):
                tail = (tail + chunk)[-LOG_TAIL_BYTES:]
        except EffectError as error:
            return f"(no output: {error.message})"
        return tail.decode(errors="replace")

    async def _write(
        self, ws: WorkspaceView, write: Callable[[], Awaitable[bool]], outcome: Outcome, *, hint: bool = True
    ) -> Outcome:
        """Write an outcome, also if this task is cancelled meanwhile, then send its hints."""

        async def run() -> bool:
            return await write()

        try:
            written = await finish(run())
        except LeadershipLost as error:
            log.info("outcome not written: not leading", workspace_id=str(ws.id), error=str(error))
            return Outcome.DROPPED
        if not written:
            log.info("outcome dropped: another owner", workspace_id=str(ws.id), op_id=str(ws.op_id))
            return Outcome.DROPPED
        if hint:
            await self._hint(outcome, [ws.id])
        return outcome

    async def _hint(self, outcome: Outcome, ids: Sequence[UUID]) -> None:
        """Hint other coordinators; the Reconciler itself is woken when the execution ends."""
        for target in HINTED_AFTER[outcome] - {HintTarget.RECONCILER}:
            await self._coordinator_hints.send(target, ids)
