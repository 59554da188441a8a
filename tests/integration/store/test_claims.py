"""One operation per workspace: of two claims one wins, and only the owner's writes take effect."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import update

from codehub.domain import home
from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.db.session import Session, Sessions
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces import bulk_claims, claims
from codehub.store.workspaces.bulk_claims import Completion, Step
from codehub.store.workspaces.claims import ClaimedOperation
from tests.integration.store.factory import an_error, make_workspace, view

KEPT = HomeContext(volume=True, crashes=1)
ACTED_AT = datetime(2030, 1, 1, tzinfo=UTC)


async def claim_one(
    session: Session, seen: WorkspaceView, operation: Operation, *, home: HomeContext
) -> ClaimedOperation | None:
    claimed = await bulk_claims.claim_all(session, [Step(seen, operation, home)])
    return ClaimedOperation.of(claimed[seen.id]) if seen.id in claimed else None


async def test_of_two_claims_at_once_one_wins(session: Session, session_factory: Sessions) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING")
    seen = await view(session, workspace_id)

    async def attempt() -> ClaimedOperation | None:
        async with session_factory.begin() as own:
            return await claim_one(own, seen, Operation.PROVISIONING, home=seen.home)

    won = [claim for claim in await asyncio.gather(*(attempt() for _ in range(8))) if claim is not None]
    assert len(won) == 1
    now = await view(session, workspace_id)
    assert (now.operation, now.op_id, now.op_seq) == (Operation.PROVISIONING, won[0].op_id, 1)
    assert ClaimedOperation.of(now) == won[0]


async def test_a_claim_begins_anew(session: Session) -> None:
    """Nothing of the operation before counts for this one."""
    workspace_id = await make_workspace(
        session, desired_state="RUNNING", observed_status="STANDBY", op_seq=4, error_count=2, op_id=uuid4()
    )
    before = await view(session, workspace_id)
    await session.exec(update(w).values(op_acted_at=before.observed_at, last_retry_at=before.observed_at))
    claim = await claim_one(session, before, Operation.STARTING, home=KEPT)
    after = await view(session, workspace_id)
    assert claim is not None
    assert claim.op_id == after.op_id != before.op_id
    assert (after.op_seq, after.error_count) == (5, 0)
    assert (after.op_acted_at, after.last_retry_at) == (None, None)
    assert after.op_started_at is not None
    assert after.home == KEPT


@pytest.mark.parametrize(
    "news",
    [
        {"desired_state": "STANDBY"},
        {"observed_status": "RUNNING"},
        {"health_status": "ERROR"},
        {"archive_key": "another"},
        {"deleted_at": "now"},
        {"op_seq": 9},
        {"error_info": {"is_terminal": True}},
    ],
    ids=lambda news: next(iter(news)),
)
async def test_a_claim_on_a_stale_plan_takes_nothing(news: dict[str, Any], session: Session) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING", observed_status="STANDBY")
    seen = await view(session, workspace_id)
    if news.get("deleted_at"):
        news = {"deleted_at": seen.observed_at}
    await session.exec(update(w).where(w.c.id == workspace_id).values(**news))
    assert await claim_one(session, seen, Operation.STARTING, home=seen.home) is None


async def test_an_edited_memo_does_not_stand_in_the_way(session: Session) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING", observed_status="STANDBY")
    seen = await view(session, workspace_id)
    await session.exec(update(w).where(w.c.id == workspace_id).values(memo="edited"))
    assert await claim_one(session, seen, Operation.STARTING, home=seen.home) is not None


async def test_claiming_a_restore_takes_the_marker_in_the_same_statement(session: Session) -> None:
    workspace_id = await make_workspace(
        session,
        desired_state="RUNNING",
        archive_key="key",
        home_ctx={"restore_marker": "key"},
    )
    seen = await view(session, workspace_id)
    assert await claim_one(session, seen, Operation.RESTORING, home=home.at_claim(seen, Operation.RESTORING))
    assert not (await view(session, workspace_id)).volume_is_trusted


Write = Callable[[Session, ClaimedOperation], Awaitable[bool]]
FENCED: dict[str, Write] = {}


def fenced(write: Write) -> Write:
    FENCED[write.__name__] = write
    return write


@fenced
async def complete_one(session: Session, claim: ClaimedOperation) -> bool:
    return await bulk_claims.complete_all(session, [Completion(claim, KEPT, ACTED_AT)]) == {
        claim.workspace_id
    }


@fenced
async def record_failure(session: Session, claim: ClaimedOperation) -> bool:
    return await claims.record_failure(session, claim, await an_error(session), home=KEPT)


@fenced
async def go_terminal(session: Session, claim: ClaimedOperation) -> bool:
    return await claims.go_terminal(session, claim, await an_error(session, terminal=True))


@fenced
async def commit_archive_key(session: Session, claim: ClaimedOperation) -> bool:
    return await claims.commit_archive_key(session, claim, "key", home=KEPT)


@fenced
async def mark_restored(session: Session, claim: ClaimedOperation) -> bool:
    return await claims.mark_restored(session, claim, home=KEPT)


@fenced
async def holds(session: Session, claim: ClaimedOperation) -> bool:
    return await claims.holds(session, claim)


@pytest.mark.parametrize("write", FENCED)
async def test_only_the_owner_writes(write: str, session: Session) -> None:
    workspace_id = await make_workspace(session, operation="ARCHIVING", observed_status="STANDBY")
    before = await view(session, workspace_id)
    own = ClaimedOperation.of(before)
    for foreign in (
        replace(own, op_id=uuid4()),  # of an older claim
        replace(own, operation=Operation.STOPPING),  # the right op_id, another operation
        replace(own, workspace_id=uuid4()),
    ):
        assert await FENCED[write](session, foreign) is False
        assert await view(session, workspace_id) == before
    assert await FENCED[write](session, own) is True


@pytest.mark.parametrize("write", FENCED)
async def test_after_a_terminal_error_its_op_id_opens_nothing(write: str, session: Session) -> None:
    workspace_id = await make_workspace(session, operation="ARCHIVING", observed_status="STANDBY")
    own = ClaimedOperation.of(await view(session, workspace_id))
    assert await claims.go_terminal(session, own, await an_error(session, terminal=True))
    after = await view(session, workspace_id)
    assert after.op_id == own.op_id  # kept: it protects the half-made archive
    assert await FENCED[write](session, own) is False
    assert await view(session, workspace_id) == after


async def test_of_many_at_once_only_those_that_are_as_planned_are_claimed(session: Session) -> None:
    ids = [
        await make_workspace(session, desired_state="RUNNING", observed_status="STANDBY") for _ in range(5)
    ]
    seen = [await view(session, each) for each in ids]
    await session.exec(update(w).where(w.c.id == ids[1]).values(desired_state="STANDBY"))
    wanted = [
        Step(ws, Operation.STARTING if number % 2 else Operation.ARCHIVING, HomeContext(crashes=number))
        for number, ws in enumerate(seen)
    ]
    claimed = await bulk_claims.claim_all(session, wanted)
    assert claimed.keys() == {*ids} - {ids[1]}
    after = [await view(session, each) for each in ids]
    for number, ws in enumerate(after):
        if number == 1:
            assert (ws.operation, ws.home) == (Operation.NONE, seen[1].home)
        else:
            assert ws == claimed[ws.id]
            assert (ws.operation, ws.home.crashes) == (wanted[number].operation, number)

    # Three end well, one of them under an operation that is not its own any more.
    foreign = replace(ClaimedOperation.of(claimed[ids[2]]), op_id=uuid4())
    ended = [
        Completion(ClaimedOperation.of(claimed[ids[3]]), KEPT, ACTED_AT),
        Completion(ClaimedOperation.of(claimed[ids[4]]), HomeContext(), None),
        Completion(foreign, KEPT, ACTED_AT),
    ]
    assert await bulk_claims.complete_all(session, ended) == {ids[3], ids[4]}
    done = [await view(session, each) for each in ids]
    assert [ws.operation is Operation.NONE for ws in done] == [False, True, False, True, True]
    assert (done[3].home, done[4].home) == (KEPT, HomeContext())
    assert (done[3].op_acted_at, done[4].op_acted_at) == (ACTED_AT, None)


async def test_completion_leaves_no_trace_of_failures(session: Session) -> None:
    workspace_id = await make_workspace(session, operation="STARTING", observed_status="RUNNING")
    own = ClaimedOperation.of(await view(session, workspace_id))
    failed_home = HomeContext(crashes=1)
    assert await claims.record_failure(session, own, await an_error(session, count=2), home=failed_home)
    failed = await view(session, workspace_id)
    assert failed.error_info is not None
    assert (failed.error_count, failed.op_acted_at, failed.home) == (2, None, failed_home)
    assert failed.last_retry_at is not None

    assert await complete_one(session, own)
    done = await view(session, workspace_id)
    assert done.operation is Operation.NONE
    assert (done.error_count, done.error_info, done.last_retry_at) == (0, None, None)
    assert done.home == KEPT


async def test_going_terminal_remembers_what_was_observed_last(session: Session) -> None:
    workspace_id = await make_workspace(session, operation="STOPPING", observed_status="PENDING")
    own = ClaimedOperation.of(await view(session, workspace_id))
    await session.exec(update(w).where(w.c.id == workspace_id).values(observed_status="RUNNING"))
    assert await claims.go_terminal(session, own, await an_error(session, terminal=True, count=4))
    after = await view(session, workspace_id)
    assert after.previous_status is ObservedStatus.RUNNING
    assert after.in_error
    assert (after.operation, after.error_count) == (Operation.NONE, 4)


async def test_the_commit_of_an_archive_takes_the_trust_from_the_volume(session: Session) -> None:
    workspace_id = await make_workspace(
        session, operation="ARCHIVING", observed_status="STANDBY", home_ctx={"volume": True}
    )
    seen = await view(session, workspace_id)
    kept = home.at_archive_commit(seen.home, archive_key="new-key", sha256="sum", sizes={"bytes": 7})
    assert await claims.commit_archive_key(session, ClaimedOperation.of(seen), "new-key", home=kept)
    after = await view(session, workspace_id)
    assert (after.archive_key, after.archive_sha256) == ("new-key", "sum")
    assert not after.volume_is_trusted
    assert (after.home.volume, dict(after.home.sizes)) == (False, {"bytes": 7})


async def test_errors_without_operation_need_the_row_as_it_was_planned(session: Session) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING", observed_status="STANDBY")
    seen = await view(session, workspace_id)
    stale = replace(seen, desired_state=DesiredState.STANDBY)
    error = await an_error(session, count=1)
    crashed = home.at_crash(seen.home, crashes=1)
    assert not await claims.record_crash(session, stale, error, home=crashed)
    assert not await claims.set_error_without_operation(session, stale, error, home=crashed)
    assert await view(session, workspace_id) == seen

    assert await claims.record_crash(session, seen, error, home=crashed)
    waiting = await view(session, workspace_id)
    assert (waiting.home.crashes, waiting.error_count) == (1, 1)
    assert waiting.last_retry_at is not None

    terminal = await an_error(session, terminal=True, count=4)
    assert await claims.set_error_without_operation(session, waiting, terminal, home=waiting.home)
    after = await view(session, workspace_id)
    assert after.in_error
    assert after.previous_status is ObservedStatus.STANDBY


async def test_no_operation_in_flight_nothing_to_adopt(session: Session) -> None:
    workspace_id = await make_workspace(session)
    with pytest.raises(ValueError, match="no operation"):
        ClaimedOperation.of(await view(session, workspace_id))
