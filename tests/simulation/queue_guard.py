"""Invariants of the start queue, watched at every commit: nobody is overtaken, nobody waits beside a free place."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.domain.limits import RunningLimits, Usage, holds_place
from codehub.domain.start_queue import StartQueue, admissible, exceeded_behind
from codehub.domain.states import DesiredState
from codehub.domain.workspace import WorkspaceView
from tests.simulation.database import Key, Transaction
from tests.simulation.queries import WORKSPACES
from tests.simulation.queries_due import start_queue

if TYPE_CHECKING:
    from tests.simulation.environment import SimulatedEnvironment


class QueueGuard:
    def __init__(self, environment: "SimulatedEnvironment", limits: RunningLimits) -> None:
        self._environment = environment
        self._limits = limits
        self._in_order = admissible  # the rules as they are: planted bugs replace names elsewhere
        self._behind = exceeded_behind
        environment.database.on_commit.append(self._committed)

    def overlooked(self) -> list[UUID]:
        """Who waits although there is a place."""
        queue = start_queue([row.view for row in self._environment.rows()])
        return [each.workspace_id for each in self._in_order(queue, self._limits)]

    def _committed(self, transaction: Transaction, before: dict[Key, Any]) -> None:
        del transaction
        written = {key: old for (table, key), old in before.items() if table == WORKSPACES}
        changed = {key: old.view if old is not None else None for key, old in written.items()}
        now = {row.view.id: row.view for row in self._environment.rows()}
        given = [each for each in changed if _was_given_a_place(changed[each], now[each])]
        if not given:
            return
        freed = {ws.owner_id for each, ws in changed.items() if ws is not None and _gave_up(ws, now[each])}
        were = [changed.get(each, ws) for each, ws in now.items()]
        earlier = [ws for ws in were if ws is not None]
        queue = start_queue(earlier)
        due = [each.workspace_id for each in self._in_order(queue, self._limits)]
        for each in given:
            if each in due or now[each].owner_id in freed:
                continue
            if self._is_behind(queue, earlier, now[each].owner_id):
                self._environment.violate(f"11: {each} was given a place, and others waited longer: {due}")

    def _is_behind(self, queue: StartQueue, were: list[WorkspaceView], owner_id: UUID) -> bool:
        holders = [ws for ws in were if holds_place(ws)]
        mine = sum(1 for ws in holders if ws.owner_id == owner_id)
        return bool(queue) and (
            self._behind(
                queue,
                owner_id,
                self._limits,
                user=Usage(mine, self._limits.per_user),
                everyone=Usage(len(holders), self._limits.in_all),
            )
            is not None
        )


def _was_given_a_place(old: WorkspaceView | None, new: WorkspaceView) -> bool:
    if new.desired_state is not DesiredState.RUNNING:
        return False
    return old is None or (old.desired_state is not DesiredState.RUNNING and not holds_place(old))


def _gave_up(old: WorkspaceView, new: WorkspaceView) -> bool:
    return old.desired_state is DesiredState.RUNNING and new.desired_state is not DesiredState.RUNNING
