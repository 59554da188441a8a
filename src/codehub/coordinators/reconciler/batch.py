"""What one tick of the Reconciler found and decided, from the first row judged to the last action begun."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from codehub.domain.plan import Crashed, Expire, Fail, Halt
from codehub.domain.states import Operation
from codehub.domain.workspace import WorkspaceView
from codehub.store.workspaces.due import Lane


@dataclass(frozen=True)
class Completion:
    """An operation that is over, the workspace after it, and the next step of its walk, if there is one."""

    of: WorkspaceView
    after: WorkspaceView
    then: Operation | None


@dataclass
class TickBatch:
    """Actions begin only once what it writes is committed."""

    now: datetime
    may_claim: bool
    free: Mapping[Lane, int]
    to_complete: list[Completion] = field(default_factory=list)
    to_mark: list[WorkspaceView] = field(default_factory=list)
    to_halt: list[tuple[WorkspaceView, Halt]] = field(default_factory=list)
    to_claim: list[tuple[WorkspaceView, Operation]] = field(default_factory=list)
    to_run: list[WorkspaceView] = field(default_factory=list)
    to_expire: list[tuple[WorkspaceView, Expire]] = field(default_factory=list)
    to_fail: list[tuple[WorkspaceView, Fail]] = field(default_factory=list)
    to_examine: list[tuple[WorkspaceView, Crashed]] = field(default_factory=list)
    wanted: Counter[Lane] = field(default_factory=Counter)
    taken: Counter[Lane] = field(default_factory=Counter)
    seen: int = 0
    changed: int = 0
    failed: int = 0
    unmet: int = 0
    short_of_slots: bool = False

    def to_write(self) -> set[UUID]:
        completed = [each.of for each in self.to_complete]
        halted, claimed = ([ws for ws, _ in each] for each in (self.to_halt, self.to_claim))
        return {ws.id for ws in (*completed, *self.to_mark, *halted, *claimed)}

    @property
    def is_one_statement(self) -> bool:
        """Several rows are locked in order first; a walk that goes on takes a claim after its completion."""
        goes_on = any(each.then is not None for each in self.to_complete)
        return len(self.to_write()) == 1 and not (self.to_mark or goes_on)
