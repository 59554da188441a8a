"""Run actions beside the Reconciler's loop: bounded by slots, one per workspace.

A slot is taken before a claim is committed and released when the action has ended *and* its outcome is written,
so queueing never uses up an operation's timeout. A leader's record of its own attempts (``Attempt``) is in
memory only: a new leader begins without it and adopts what it finds in flight.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import structlog

from codehub.coordinators.reconciler.outcomes import HINTED_AFTER, Outcome
from codehub.domain.plan import Attempt
from codehub.domain.states import Operation
from codehub.domain.tick_plan import Lane
from codehub.domain.workspace import WorkspaceView
from codehub.kit.tasks import cancel_and_wait
from codehub.signals.hints import HintTarget

log = structlog.get_logger(__name__)


@dataclass
class Execution:
    """One run of an action, or of the work that ends one."""

    workspace_id: UUID
    op_id: UUID | None
    lane: Lane
    started_at: datetime
    task: "asyncio.Task[None] | None" = None
    ended_at: datetime | None = None
    progress_at: datetime | None = None
    # By the database's clock, read after the action. None: it has not ended, or its end is in the row.
    acted_at: datetime | None = None

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()


ExecutionBody = Callable[[Execution], Awaitable[Outcome]]


class Executions:
    """The running and recent executions of this leader.

    ``clock``: the database's time, extrapolated. ``wake``: wakes the Reconciler.
    """

    def __init__(
        self, *, slots: dict[Lane, int], clock: Callable[[], datetime], wake: Callable[[], None]
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._wake = wake
        self._by_workspace: dict[UUID, Execution] = {}

    def free(self, lane: Lane) -> int:
        used = sum(1 for each in self._by_workspace.values() if each.is_running and each.lane is lane)
        return self._slots[lane] - used

    def is_busy(self, workspace_id: UUID) -> bool:
        execution = self._by_workspace.get(workspace_id)
        return execution is not None and execution.is_running

    def running(self) -> int:
        return sum(1 for each in self._by_workspace.values() if each.is_running)

    def attempts(
        self,
        workspaces: Iterable[WorkspaceView],
        *,
        timeout_counts_from: Callable[[Operation], datetime | None],
    ) -> dict[UUID, Attempt]:
        """This leader's own attempts, by workspace."""
        return {ws.id: self._attempt(ws, timeout_counts_from(ws.operation)) for ws in workspaces}

    def start(self, ws: WorkspaceView, work: ExecutionBody, *, lane: Lane) -> None:
        """Run ``work`` beside the loop. The caller checks that the workspace is not busy."""
        assert not self.is_busy(ws.id), "one actor per workspace"
        self._launch(ws, work, lane=lane)

    def replace(self, ws: WorkspaceView, work: ExecutionBody, *, lane: Lane) -> None:
        """Cancel what runs for this workspace; once it has ended, run ``work``."""
        before = self._by_workspace.get(ws.id)

        async def cancel_then_work(execution: Execution) -> Outcome:
            if before is not None and before.task is not None:
                await cancel_and_wait([before.task])
            return await work(execution)

        self._launch(ws, cancel_then_work, lane=lane)

    def forget_older_than(self, moment: datetime) -> None:
        """Forget attempts that ended before ``moment``."""
        for workspace_id, execution in list(self._by_workspace.items()):
            if not execution.is_running and execution.ended_at is not None and execution.ended_at < moment:
                del self._by_workspace[workspace_id]

    async def cancel_all(self) -> None:
        executions, self._by_workspace = self._by_workspace, {}
        await cancel_and_wait([each.task for each in executions.values() if each.task is not None])

    def _attempt(self, ws: WorkspaceView, timeout_counts_from: datetime | None) -> Attempt:
        execution = self._by_workspace.get(ws.id)
        if execution is None or execution.op_id != ws.op_id:
            return Attempt(acting=self.is_busy(ws.id), timeout_counts_from=timeout_counts_from)
        return Attempt(
            acting=execution.is_running,
            started_at=execution.started_at,
            ended_at=execution.ended_at,
            progress_at=execution.progress_at,
            acted_at=execution.acted_at,
            timeout_counts_from=timeout_counts_from,
        )

    def _launch(self, ws: WorkspaceView, work: ExecutionBody, *, lane: Lane) -> None:
        execution = Execution(ws.id, ws.op_id, lane, started_at=self._clock())
        before = self._by_workspace.get(ws.id)
        if before is not None and before.op_id == ws.op_id:
            # A wait for a node uses up no timeout of the operation, not even after the attempt that waited failed.
            execution.progress_at = before.progress_at
        execution.task = asyncio.create_task(self._run(execution, work), name=f"act-{ws.id}")
        self._by_workspace[ws.id] = execution

    async def _run(self, execution: Execution, work: ExecutionBody) -> None:
        outcome = Outcome.DROPPED  # if ``work`` raises: cancelled, or a bug
        try:
            outcome = await work(execution)
        except Exception as error:
            log.error(
                "execution failed unexpectedly", workspace_id=str(execution.workspace_id), exc_info=error
            )
        finally:
            execution.ended_at = self._clock()
            lane_was_full = self.free(execution.lane) <= 0  # another workspace may wait for this slot
            if lane_was_full or HintTarget.RECONCILER in HINTED_AFTER[outcome]:
                self._wake()
