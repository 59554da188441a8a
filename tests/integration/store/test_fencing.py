"""One statement that is a fenced transaction: it answers and writes while its term lasts, and not after."""

import asyncio
from collections.abc import AsyncIterator, Callable
from uuid import UUID

import pytest
from sqlalchemy import Function, Text, any_, func, insert, text, update
from sqlmodel import col, select

from codehub.domain.states import DesiredState, Operation
from codehub.store.cluster import terms
from codehub.store.db import statements
from codehub.store.db.fencing import Fence, FencedSession
from codehub.store.db.pool import Pool
from codehub.store.db.session import Session, Sessions, SingleConnection
from codehub.store.errors import TermOver
from codehub.store.schema.tables import AuditEntry, audit_log
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces import bulk_claims, due, events, observations
from codehub.store.workspaces.bulk_claims import Step
from codehub.store.workspaces.claims import ClaimedOperation
from tests.integration.store.factory import make_workspace, until_somebody_waits_for_a_lock, view

LOCK = "coordinator:wc"

Fenced = Callable[..., FencedSession]


@pytest.fixture
async def fenced(pool: Pool, session: Session) -> AsyncIterator[Fenced]:
    """Sessions of the first term's leader, on its one connection."""
    await terms.acquire_term(session, LOCK, "node-a")
    await session.commit()
    connection = await pool.acquire()
    yield lambda epoch=1, actor="": FencedSession(SingleConnection(connection), Fence(LOCK, epoch, actor))
    pool.release(connection)


async def claim(session: Session, workspace_id: UUID, looking: Session) -> ClaimedOperation | None:
    seen = await view(looking, workspace_id)
    await looking.rollback()
    claimed = await bulk_claims.claim_all(session, [Step(seen, Operation.PROVISIONING, seen.home)])
    return ClaimedOperation.of(claimed[workspace_id]) if workspace_id in claimed else None


async def claim_fenced(fenced: Fenced, workspace_id: UUID, looking: Session) -> ClaimedOperation | None:
    async with fenced() as writing:
        return await claim(writing, workspace_id, looking)


async def test_a_question_is_answered_with_the_time_of_the_database(session: Session, fenced: Fenced) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING")
    before = await statements.now(session)
    async with fenced() as asking:
        work = await due.load_work(asking, limit=10, retried_before=before)
    assert [ws.id for ws in work.waiting] == [workspace_id]
    assert work.waiting == [await view(session, workspace_id)]
    assert before < asking.now < await statements.now(session)


async def test_nothing_found_is_an_answer(session: Session, fenced: Fenced) -> None:
    async with fenced() as asking:
        work = await due.load_work(asking, limit=10, retried_before=await statements.now(session))
    assert (work.in_flight, work.waiting) == ([], [])
    async with fenced() as asking:
        assert await observations.load_named(asking, []) == []


async def test_a_statement_that_was_sent_without_a_fence_still_writes_with_one(
    session: Session, fenced: Fenced
) -> None:
    """Coordinators send the same constants either way, in any order."""
    named = update(audit_log).where(audit_log.c.actor == "nobody").values(action="first")
    await session.exec(insert(audit_log).values(actor="nobody", action="none"))
    assert (await session.exec(named)).rowcount == 1
    await session.exec(update(audit_log).values(action="none"))
    await session.commit()
    async with fenced() as writing:
        assert (await writing.exec(named)).rowcount == 1
    assert (await session.exec(select(col(AuditEntry.action)))).all() == ["first"]


async def test_a_write_is_committed_by_itself_and_carries_its_actor(session: Session, fenced: Fenced) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING")
    async with fenced(actor="reconciler") as writing:
        claimed = await claim(writing, workspace_id, session)
    assert claimed is not None
    assert ClaimedOperation.of(await view(session, workspace_id)) == claimed
    newest = (await events.list_page(session, workspace_id)).items[0]
    assert (newest.actor, newest.changes["operation"]) == ("reconciler", ("NONE", "PROVISIONING"))
    # And nobody's name stays behind on the connection.
    async with fenced() as asking:
        actor = select(Function("current_setting", "codehub.actor", True, type_=Text()))
        assert (await asking.exec(actor)).one() in (None, "")


async def test_rows_written_are_counted_where_none_are_asked_back(session: Session, fenced: Fenced) -> None:
    ids = [await make_workspace(session, operation="STARTING") for _ in range(2)]
    at_rest = await make_workspace(session)
    later = await statements.now(session)
    async with fenced() as writing:
        assert await writing_rows(writing, [*ids, at_rest]) == 2
    async with fenced() as writing:
        assert await writing_rows(writing, [at_rest]) == 0
    assert (await view(session, ids[0])).observed_at != (await view(session, at_rest)).observed_at
    assert (await view(session, at_rest)).observed_at < later  # type: ignore[operator]


async def writing_rows(session: Session, ids: list[UUID]) -> int:
    stamp = update(w).where(w.c.id == any_(statements.uuid_array(ids)), w.c.operation != Operation.NONE)
    return (await session.exec(stamp.values(observed_at=func.clock_timestamp()))).rowcount


async def test_once_the_term_is_over_nothing_is_answered_or_written(session: Session, fenced: Fenced) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING")
    await terms.acquire_term(session, LOCK, "node-b")
    await session.commit()
    before = await view(session, workspace_id)
    await session.rollback()

    async with fenced() as asking:
        with pytest.raises(TermOver):
            await observations.load_named(asking, [workspace_id])
    async with fenced() as writing:
        with pytest.raises(TermOver):
            await claim(writing, workspace_id, session)

    assert await view(session, workspace_id) == before
    async with fenced(epoch=2) as successor:
        assert await claim(successor, workspace_id, session) is not None


async def test_a_write_that_waits_for_a_successor_writes_nothing(
    session: Session, session_factory: Sessions, fenced: Fenced
) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING")

    async with session_factory() as successor:
        await terms.acquire_term(successor, LOCK, "node-b")  # not committed yet
        writing = asyncio.create_task(claim_fenced(fenced, workspace_id, session))
        async with session_factory() as looking:
            await until_somebody_waits_for_a_lock(looking)
        await successor.commit()
        with pytest.raises(TermOver):
            await writing
    assert (await view(session, workspace_id)).operation is Operation.NONE


async def test_a_successor_waits_for_a_write_under_way(
    session: Session, session_factory: Sessions, fenced: Fenced
) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING")

    async def succeed() -> int:
        async with session_factory.begin() as own:
            return (await terms.acquire_term(own, LOCK, "node-b")).epoch

    # Given a write that holds its term and waits for a row of somebody else's
    async with session_factory() as other:
        await other.exec(update(w).where(w.c.id == workspace_id).values(memo="busy"))
        writing = asyncio.create_task(claim_fenced(fenced, workspace_id, session))
        async with session_factory() as looking:
            await until_somebody_waits_for_a_lock(looking)
            successor = asyncio.create_task(succeed())
            await until_somebody_waits_for_a_lock(looking, count=2)
        assert not successor.done()
        await other.commit()

    # Then the write is through before the term is over
    assert await writing is not None
    assert await successor == 2


async def test_an_intent_that_comes_in_between_is_not_overrun(
    session: Session, session_factory: Sessions, fenced: Fenced
) -> None:
    """The row is judged again once it is there, the term still held."""
    workspace_id = await make_workspace(session, desired_state="RUNNING")

    async with session_factory() as person:
        intent = update(w).where(w.c.id == workspace_id).values(desired_state=DesiredState.PENDING)
        await person.exec(intent)
        writing = asyncio.create_task(claim_fenced(fenced, workspace_id, session))
        async with session_factory() as looking:
            await until_somebody_waits_for_a_lock(looking)
        await person.commit()
        assert await writing is None
    assert (await view(session, workspace_id)).operation is Operation.NONE


async def test_what_cannot_be_fenced_is_refused(fenced: Fenced) -> None:
    async with fenced() as writing:
        with pytest.raises(TypeError):
            await writing.exec(insert(audit_log).values(actor="a", action="b", subject="c", detail={}))
    async with fenced() as writing:
        with pytest.raises(TypeError):
            await writing.exec(text("SELECT 1"))


async def test_a_second_statement_is_refused(fenced: Fenced) -> None:
    async with fenced() as asking:
        await observations.load_named(asking, [])
        with pytest.raises(RuntimeError):
            await observations.load_named(asking, [])
