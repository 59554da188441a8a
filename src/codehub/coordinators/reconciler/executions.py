"""The actions a leader has running beside its loop: bounded, one per workspace, each written back.

A slot is taken before a claim is committed and given back when the action has ended *and* its outcome is
written, so queueing never uses up an operation's time limit. What this leader remembers of its own attempts
(``Attempt``) is memory, not truth: a new leader begins without it and adopts what it finds in flight.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from codehub.domain.plan import Attempt
from codehub.domain.states import STORAGE_OPERATIONS, Operation
from codehub.domain.workspace import WorkspaceView
from codehub.kit.tasks import cancel_and_wait
from codehub.store.workspaces.due import Lane


def lane_of(operation: Operation) -> Lane:
    return Lane.STORAGE if operation in STORAGE_OPERATIONS else Lane.CONTROL


@dataclass
class Execution:
    """One run of an action (or of what ends one)."""

    workspace_id: UUID
    op_id: UUID | None
    lane: Lane
    started_at: datetime
    task: "asyncio.Task[None] | None" = None
    ended_at: datetime | None = None
    progress_at: datetime | None = None
    # By the database's clock, read once the effect was there. None: not there yet, or its end is in the row.
    acted_at: datetime | None = None
    # The Observer was told of the effect, and its look will wake the Reconciler: to do so earlier is in vain.
    awaits_look: bool = False

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done()


Work = Callable[[Execution], Awaitable[None]]


class Executions:
    """``clock``: the database's time, as this leader carries it forward."""

    def __init__(
        self, *, slots: dict[Lane, int], clock: Callable[[], datetime], on_end: Callable[[], None]
    ) -> None:
        self._slots = slots
        self._clock = clock
        self._on_end = on_end
        self._by_workspace: dict[UUID, Execution] = {}
        self.short_of_slots = False  # somebody waits for a slot: every one that comes free is news

    def free(self, lane: Lane) -> int:
        used = sum(1 for each in self._by_workspace.values() if each.is_running and each.lane is lane)
        return self._slots[lane] - used

    def is_busy(self, workspace_id: UUID) -> bool:
        execution = self._by_workspace.get(workspace_id)
        return execution is not None and execution.is_running

    def running(self) -> int:
        return sum(1 for each in self._by_workspace.values() if each.is_running)

    def attempt(self, ws: WorkspaceView, *, timeout_counts_from: datetime | None) -> Attempt:
        """What this leader knows of its own attempts at the operation in flight."""
        execution = self._by_workspace.get(ws.id)
        if execution is None or execution.op_id != ws.op_id:
            return Attempt(acting=self.is_busy(ws.id), timeout_counts_from=timeout_counts_from)
        return Attempt(
            acting=execution.is_running,
            started_at=execution.started_at,
            ended_at=execution.ended_at,
            progress_at=execution.progress_at,
            timeout_counts_from=timeout_counts_from,
        )

    def recall(self, ws: WorkspaceView) -> WorkspaceView:
        """The row with what only this leader knows yet: when its action ended."""
        execution = self._by_workspace.get(ws.id)
        if execution is None or execution.acted_at is None or execution.op_id != ws.op_id:
            return ws
        return replace(ws, op_acted_at=execution.acted_at)

    def start(self, ws: WorkspaceView, work: Work, *, lane: Lane) -> None:
        """Run ``work`` beside the loop. The caller has seen that the workspace is not busy."""
        assert not self.is_busy(ws.id), "one actor per workspace"
        self._launch(ws, work, lane=lane)

    def replace(self, ws: WorkspaceView, work: Work, *, lane: Lane) -> None:
        """Cancel what runs for this workspace, and once it has ended run ``work`` in its place."""
        before = self._by_workspace.get(ws.id)

        async def cancel_then_work(execution: Execution) -> None:
            if before is not None and before.task is not None:
                await cancel_and_wait([before.task])
            await work(execution)

        self._launch(ws, cancel_then_work, lane=lane)

    def forget_older_than(self, moment: datetime) -> None:
        """Drop the memory of attempts nobody will ask about again."""
        for workspace_id, execution in list(self._by_workspace.items()):
            if not execution.is_running and execution.ended_at is not None and execution.ended_at < moment:
                del self._by_workspace[workspace_id]

    async def cancel_all(self) -> None:
        executions, self._by_workspace = self._by_workspace, {}
        await cancel_and_wait([each.task for each in executions.values() if each.task is not None])

    def _launch(self, ws: WorkspaceView, work: Work, *, lane: Lane) -> None:
        execution = Execution(ws.id, ws.op_id, lane, started_at=self._clock())
        execution.task = asyncio.create_task(self._run(execution, work), name=f"act-{ws.id}")
        self._by_workspace[ws.id] = execution

    async def _run(self, execution: Execution, work: Work) -> None:
        try:
            await work(execution)
        finally:
            execution.ended_at = self._clock()
            if self.short_of_slots or not execution.awaits_look:
                self._on_end()
