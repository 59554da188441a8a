"""What a tick planned, written on a real PostgreSQL: each kind, alone and together, and what is dropped."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from sqlalchemy import func, update

from codehub.domain.plan import Attempt
from codehub.domain.policy import ErrorPolicy
from codehub.domain.states import Operation
from codehub.domain.tick_plan import (
    BeginOperation,
    CompleteOperation,
    HaltWorkspace,
    Lane,
    MarkHome,
    Slots,
    Written,
    plan_tick,
)
from codehub.store import control
from codehub.store.db import statements
from codehub.store.db.session import Session, Sessions
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces import transitions
from tests.integration.store.factory import make_workspace, view

PLENTY = Slots(free={Lane.CONTROL: 10, Lane.STORAGE: 10})


class Opened:
    """Plain sessions that note which kind was asked for; ``Leadership`` fences them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self.kinds: list[str] = []

    @asynccontextmanager
    async def statement(self, *, actor: str = "") -> AsyncIterator[Session]:
        self.kinds.append("statement")
        async with self._sessions.begin() as session:
            yield session

    @asynccontextmanager
    async def transaction(self, *, actor: str = "") -> AsyncIterator[Session]:
        self.kinds.append("transaction")
        async with self._sessions.begin() as session:
            yield session


async def planned(session: Session, *ids: UUID, acted: bool = False) -> list[Written]:
    """What ``plan_tick`` makes of these rows; ``acted``: this leader saw the action end before the look."""
    rows = [await view(session, each) for each in ids]
    now = await statements.now(session)
    await session.rollback()
    attempts: dict[UUID, Attempt] = {}
    if acted:
        attempts = {ws.id: Attempt(acted_at=ws.op_started_at, ended_at=ws.op_started_at) for ws in rows}
    found = plan_tick(rows, now=now, policy=ErrorPolicy(), slots=PLENTY, attempts=attempts)
    return [each for each in found if isinstance(each, Written)]


async def one_in_flight(session: Session, operation: str, **columns: Any) -> UUID:
    """Claimed a moment before it was observed."""
    workspace_id = await make_workspace(session, operation=operation, **columns)
    await session.exec(update(w).where(w.c.id == workspace_id).values(observed_at=func.clock_timestamp()))
    await session.commit()
    return workspace_id


async def test_a_claim_alone_is_one_statement_and_gives_back_the_row_as_written(
    session: Session, session_factory: Sessions
) -> None:
    opened = Opened(session_factory)
    workspace_id = await make_workspace(session, desired_state="RUNNING", observed_status="STANDBY")
    (begin,) = await planned(session, workspace_id)
    assert isinstance(begin, BeginOperation)

    applied = await transitions.apply(control, opened, [begin], actor="test")

    assert opened.kinds == ["statement"]
    after = await view(session, workspace_id)
    assert list(applied.begun) == [after]
    assert (after.operation, applied.changed) == (Operation.STARTING, 1)


async def test_a_walk_that_goes_on_is_completed_and_claimed_together(
    session: Session, session_factory: Sessions
) -> None:
    opened = Opened(session_factory)
    workspace_id = await one_in_flight(
        session, "PROVISIONING", desired_state="RUNNING", observed_status="STANDBY"
    )
    (done,) = await planned(session, workspace_id, acted=True)
    assert isinstance(done, CompleteOperation)

    applied = await transitions.apply(control, opened, [done], actor="test")

    assert opened.kinds == ["transaction"]
    after = await view(session, workspace_id)
    assert (after.operation, after.op_seq, after.home.volume) == (Operation.STARTING, 2, True)
    assert list(applied.begun) == [after]
    assert list(applied.completed) == [done]


async def test_all_kinds_in_one_transaction(session: Session, session_factory: Sessions) -> None:
    opened = Opened(session_factory)
    begins = await make_workspace(session, desired_state="RUNNING", observed_status="STANDBY")
    completes = await one_in_flight(session, "STOPPING", desired_state="STANDBY", observed_status="STANDBY")
    halts = await make_workspace(
        session, desired_state="STANDBY", observed_status="PENDING", home_ctx={"volume": True}
    )
    marks = await make_workspace(session, desired_state="STANDBY", observed_status="STANDBY", home_ctx={})
    found = await planned(session, begins, completes, halts, marks, acted=True)
    assert [type(each) for each in found] == [BeginOperation, CompleteOperation, HaltWorkspace, MarkHome]

    applied = await transitions.apply(control, opened, found, actor="test")

    assert opened.kinds == ["transaction"]
    assert applied.changed == 4
    seen = {name: await view(session, each) for name, each in _names(begins, completes, halts, marks)}
    assert seen["begins"].operation is Operation.STARTING
    assert (seen["completes"].operation, seen["completes"].op_acted_at is None) == (Operation.NONE, False)
    error = seen["halts"].error_info
    assert error is not None
    assert error.is_terminal
    assert seen["marks"].home.volume


async def test_what_somebody_changed_meanwhile_is_not_written(
    session: Session, session_factory: Sessions
) -> None:
    begins = await make_workspace(session, desired_state="RUNNING", observed_status="STANDBY")
    completes = await one_in_flight(session, "STOPPING", desired_state="STANDBY", observed_status="STANDBY")
    found = await planned(session, begins, completes, acted=True)
    before = [await view(session, each) for each in (begins, completes)]
    await session.exec(update(w).where(w.c.id == begins).values(desired_state="STANDBY"))
    await session.exec(update(w).where(w.c.id == completes).values(op_id=begins))
    await session.commit()

    applied = await transitions.apply(control, Opened(session_factory), found, actor="test")

    assert applied.changed == 0
    assert [each.workspace.id for each in applied.dropped] == [completes]
    after = [await view(session, each) for each in (begins, completes)]
    assert [ws.operation for ws in after] == [ws.operation for ws in before]


async def test_nothing_to_write_opens_no_session(session_factory: Sessions) -> None:
    opened = Opened(session_factory)
    assert (await transitions.apply(control, opened, [], actor="test")).changed == 0
    assert opened.kinds == []


def _names(begins: UUID, completes: UUID, halts: UUID, marks: UUID) -> list[tuple[str, UUID]]:
    return [("begins", begins), ("completes", completes), ("halts", halts), ("marks", marks)]
