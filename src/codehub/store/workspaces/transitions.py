"""Write what a tick planned (``domain/tick_plan``), fenced by the leader's term.

Every write is a compare-and-set: a claim compares all that the plan read, a completion its ``op_id`` and
``operation``. A workspace changed meanwhile is missing from the result and planned again at the next tick.

One write to one row is sent as a single fenced statement, anything else as one transaction that locks its
rows in order first. A process that dies before the commit has written nothing; one that dies after it leaves
operations in flight, which the next leader adopts.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from codehub.domain import home
from codehub.domain.errors import ErrorInfo
from codehub.domain.states import Operation
from codehub.domain.tick_plan import (
    BeginOperation,
    CompleteOperation,
    HaltWorkspace,
    MarkHome,
    SwitchHome,
    Written,
)
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.db.session import Session
from codehub.store.workspaces.bulk_claims import Completion, Step
from codehub.store.workspaces.claims import ClaimedOperation


class FencedSessions(Protocol):
    """A leader's sessions; both kinds commit only while its term lasts."""

    def statement(self, *, actor: str = "") -> AbstractAsyncContextManager[Session]:
        """Open a session for exactly one statement, in one round trip."""

    def transaction(self, *, actor: str = "") -> AbstractAsyncContextManager[Session]: ...


class TransitionStore(Protocol):
    """The writes of a tick (``store/control``)."""

    async def lock_in_order(self, session: Session, ids: Collection[UUID]) -> None: ...

    async def claim_all(self, session: Session, steps: Sequence[Step]) -> dict[UUID, WorkspaceView]: ...

    async def complete_all(self, session: Session, done: Sequence[Completion]) -> set[UUID]: ...

    async def mark_home(self, session: Session, workspace: WorkspaceView, *, home: HomeContext) -> bool: ...

    async def switch_archive(
        self, session: Session, workspace: WorkspaceView, *, archive_key: str, home: HomeContext
    ) -> bool: ...

    async def set_error_without_operation(
        self, session: Session, workspace: WorkspaceView, error: ErrorInfo, *, home: HomeContext
    ) -> bool: ...


@dataclass(frozen=True)
class Applied:
    """What was written. ``begun``: workspaces as claimed, whose actions may run now."""

    begun: Sequence[WorkspaceView] = ()
    completed: Sequence[CompleteOperation] = ()
    marked: Sequence[MarkHome] = ()
    switched: Sequence[SwitchHome] = ()
    halted: Sequence[HaltWorkspace] = ()
    dropped: Sequence[CompleteOperation] = ()

    @property
    def changed(self) -> int:
        return sum(map(len, (self.begun, self.completed, self.marked, self.switched, self.halted)))


async def apply(
    store: TransitionStore, sessions: FencedSessions, transitions: Sequence[Written], *, actor: str
) -> Applied:
    """Write these transitions, at most one per workspace.

    Idempotent: the second time nothing matches.
    """
    if not transitions:
        return Applied()
    begin = sessions.statement if _is_one_statement(transitions) else sessions.transaction
    async with begin(actor=actor) as session:
        await store.lock_in_order(session, {transition.workspace.id for transition in transitions})
        return await _write(store, session, transitions)


def _is_one_statement(transitions: Sequence[Written]) -> bool:
    if len(transitions) > 1:  # the rows are locked first
        return False
    match transitions[0]:
        case CompleteOperation() | MarkHome() | SwitchHome():
            return transitions[0].next_operation is None
        case _:
            return True


async def _write(store: TransitionStore, session: Session, transitions: Sequence[Written]) -> Applied:
    """Write completions, then halts, marks and switches, then all claims in one statement."""
    completions = [each for each in transitions if isinstance(each, CompleteOperation)]
    written = await _complete(store, session, completions)
    completed = [each for each in completions if each.workspace.id in written]
    halted = [
        each
        for each in transitions
        if isinstance(each, HaltWorkspace)
        and await store.set_error_without_operation(
            session, each.workspace, each.error, home=each.workspace.home
        )
    ]
    marked = [
        each
        for each in transitions
        if isinstance(each, MarkHome) and await store.mark_home(session, each.workspace, home=each.after.home)
    ]
    switched = [
        each for each in transitions if isinstance(each, SwitchHome) and await _switch(store, session, each)
    ]
    continued: list[CompleteOperation | MarkHome | SwitchHome] = [*completed, *marked, *switched]
    steps = [_step(each.after, each.next_operation) for each in continued if each.next_operation is not None]
    steps += [
        _step(each.workspace, each.operation) for each in transitions if isinstance(each, BeginOperation)
    ]
    # Pays for: POST → ready, 50 at once.
    begun = await store.claim_all(session, steps) if steps else {}
    return Applied(
        begun=[begun[step.workspace.id] for step in steps if step.workspace.id in begun],
        completed=completed,
        marked=marked,
        switched=switched,
        halted=halted,
        dropped=[each for each in completions if each.workspace.id not in written],
    )


async def _switch(store: TransitionStore, session: Session, switch: SwitchHome) -> bool:
    after = switch.after
    assert after.archive_key is not None, "an archive was chosen"
    return await store.switch_archive(
        session, switch.workspace, archive_key=after.archive_key, home=after.home
    )


async def _complete(
    store: TransitionStore, session: Session, completions: Sequence[CompleteOperation]
) -> set[UUID]:
    if not completions:
        return set()
    return await store.complete_all(
        session,
        [
            Completion(ClaimedOperation.of(each.workspace), each.after.home, each.workspace.op_acted_at)
            for each in completions
        ],
    )


def _step(workspace: WorkspaceView, operation: Operation) -> Step:
    return Step(workspace, operation, home.at_claim(workspace, operation))
