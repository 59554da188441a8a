"""What the Reconciler is given: everything that is due, the oldest first, nothing that backs off."""

from datetime import timedelta
from typing import Any

from codehub.domain.tick_plan import Lane
from codehub.store.db import statements
from codehub.store.db.session import Session
from codehub.store.workspaces import due
from tests.integration.store.factory import make_workspace

BACKOFF = timedelta(seconds=30)
STARTABLE: dict[str, Any] = {"desired_state": "RUNNING", "observed_status": "STANDBY"}
ARCHIVABLE: dict[str, Any] = {"desired_state": "PENDING", "observed_status": "STANDBY"}


async def test_the_oldest_intent_goes_first_and_lanes_do_not_hide_each_other(session: Session) -> None:
    now = await statements.now(session)
    archives = [
        await make_workspace(session, **ARCHIVABLE, last_access_at=now - timedelta(hours=2, minutes=minute))
        for minute in range(3)
    ]
    starts = [
        await make_workspace(session, **STARTABLE, last_access_at=now - timedelta(minutes=minute))
        for minute in range(3)
    ]
    await make_workspace(session, desired_state="RUNNING", observed_status="RUNNING")

    two = await due.load_work(session, limit=2, retried_before=now)
    assert [ws.id for ws in two.due[Lane.CONTROL]] == [starts[2], starts[1]]
    assert [ws.id for ws in two.due[Lane.STORAGE]] == [archives[2], archives[1]]
    all_ = await due.load_work(session, limit=10, retried_before=now)
    assert [ws.id for ws in all_.due[Lane.CONTROL]] == starts[::-1]
    assert [ws.id for ws in all_.due[Lane.STORAGE]] == archives[::-1]
    assert all_.in_flight == []


async def test_a_row_in_back_off_takes_no_place_and_comes_back_when_it_is_due(session: Session) -> None:
    now = await statements.now(session)
    crashed = await make_workspace(session, **STARTABLE, last_retry_at=now - timedelta(seconds=10))
    fresh = await make_workspace(session, **STARTABLE)

    early = (await due.load_work(session, limit=10, retried_before=now - BACKOFF)).due[Lane.CONTROL]
    assert [ws.id for ws in early] == [fresh]

    later = (
        await due.load_work(session, limit=10, retried_before=now + timedelta(seconds=21) - BACKOFF)
    ).due[Lane.CONTROL]
    assert {ws.id for ws in later} == {fresh, crashed}


async def test_a_deletion_does_not_wait_for_the_back_off_of_a_crash(session: Session) -> None:
    now = await statements.now(session)
    crashed = await make_workspace(session, **STARTABLE, last_retry_at=now, deleted_at=now)
    found = (await due.load_work(session, limit=10, retried_before=now - BACKOFF)).due[Lane.CONTROL]
    assert [ws.id for ws in found] == [crashed]


async def test_what_is_in_flight_is_all_there_except_in_back_off(session: Session) -> None:
    now = await statements.now(session)
    first = await make_workspace(session, operation="STARTING")
    failed = await make_workspace(session, operation="ARCHIVING", last_retry_at=now, error_count=1)
    await make_workspace(session, desired_state="RUNNING")

    in_flight = await due.load_in_flight(session, retried_before=now - BACKOFF)
    assert [ws.id for ws in in_flight] == [first]
    work = await due.load_work(session, limit=10, retried_before=now - BACKOFF)
    assert work.in_flight == in_flight
    in_flight = await due.load_in_flight(session, retried_before=now)
    assert {ws.id for ws in in_flight} == {first, failed}
