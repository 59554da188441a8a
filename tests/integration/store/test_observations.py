"""The Observer writes what is news, in bulk, and never goes back in time."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import update
from sqlmodel import col, select

from codehub.domain.states import HealthStatus, ObservedStatus
from codehub.kit.ids import uuid7
from codehub.store.db import statements
from codehub.store.db.row_locks import lock_in_order
from codehub.store.db.session import Session, Sessions
from codehub.store.schema.tables import Workspace
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces import observations
from codehub.store.workspaces.observations import Observable, Observed
from tests.integration.store.factory import an_error, make_workspace, view

OK, ERROR = HealthStatus.OK, HealthStatus.ERROR
PENDING, STANDBY, RUNNING, DELETED = ObservedStatus


async def test_only_rows_that_changed_are_written(session: Session) -> None:
    same = await make_workspace(session, observed_status="STANDBY")
    other = await make_workspace(session, observed_status="STANDBY")
    now = await statements.now(session)

    changed = await observations.write_observations(
        session, [Observed(same, STANDBY, OK), Observed(other, RUNNING, ERROR)], observed_at=now
    )
    assert changed == [other]
    written, left = await view(session, other), await view(session, same)
    assert (written.observed_status, written.health_status, written.observed_at) == (RUNNING, ERROR, now)
    assert left.version == 1
    assert left.observed_at != now
    assert await observations.write_observations(session, [], observed_at=now) == []


async def test_a_late_look_does_not_overwrite_a_newer_one(session: Session) -> None:
    workspace_id = await make_workspace(session)
    begun = await statements.now(session)
    quick = await statements.now(session)
    await observations.write_observations(session, [Observed(workspace_id, RUNNING, OK)], observed_at=quick)
    changed = await observations.write_observations(
        session, [Observed(workspace_id, STANDBY, OK)], observed_at=begun
    )
    assert changed == []
    assert (await view(session, workspace_id)).observed_status is RUNNING


async def test_deleted_is_for_good_and_only_what_a_person_asked_for(session: Session) -> None:
    now = await statements.now(session)
    live = await make_workspace(session, observed_at=None)
    gone = await make_workspace(session, observed_status="DELETED", deleted_at=now, observed_at=None)
    changed = await observations.write_observations(
        session, [Observed(live, DELETED, OK), Observed(gone, STANDBY, OK)], observed_at=now
    )
    assert changed == []


async def test_deleted_is_not_for_good_while_an_operation_is_in_flight(session: Session) -> None:
    """A look begun before the action ended proves nothing: without a later one it would never complete."""
    now = await statements.now(session)
    gone: dict[str, Any] = {"observed_status": "DELETED", "deleted_at": now, "observed_at": now}
    deleting = await make_workspace(session, operation="DELETING", **gone)
    provisioning = await make_workspace(session, operation="PROVISIONING", **gone)
    both = {deleting, provisioning}
    assert _ids(await observations.load_watched(session, after=observations.FIRST_PAGE, limit=100)) == sorted(
        both
    )
    assert _ids(await observations.load_named(session, both)) == sorted(both)

    later = await statements.now(session)
    assert await observations.stamp_in_flight(session, [deleting], observed_at=later) == 1
    made = [Observed(provisioning, STANDBY, OK)]
    assert await observations.write_observations(session, made, observed_at=later) == [provisioning]


async def test_only_a_look_begun_after_the_recovery_turns_health_back(session: Session) -> None:
    """A disk may have come back between the look and the recovery: the plan must not go on from before."""
    workspace_id = await make_workspace(session, observed_status="PENDING", health_status="ERROR")
    await session.exec(
        update(w).where(w.c.id == workspace_id).values(error_info=(await an_error(session)).as_json())
    )
    began_before = await statements.now(session)
    await session.exec(update(w).where(w.c.id == workspace_id).values(error_info=None))
    fine = [Observed(workspace_id, PENDING, OK)]
    assert await observations.write_observations(session, fine, observed_at=began_before) == []
    began_after = await statements.now(session)
    assert await observations.write_observations(session, fine, observed_at=began_after) == [workspace_id]


async def test_watched_is_what_is_not_at_rest_and_what_was_seen_is_found_by_name(
    session: Session,
) -> None:
    now = await statements.now(session)
    archived = await make_workspace(session, archive_key="key")
    surprising = await make_workspace(session, archive_key="key")
    sleeping = await make_workspace(session, observed_status="STANDBY")
    starting = await make_workspace(session, operation="PROVISIONING")
    deleting = await make_workspace(session, deleted_at=now)
    gone = await make_workspace(session, deleted_at=now, observed_status="DELETED")
    never_seen = await make_workspace(session, observed_at=None)
    error = await an_error(session, terminal=True)
    broken = await make_workspace(session, error_info=error.as_json())

    rows = await observations.load_watched(session, after=observations.FIRST_PAGE, limit=100)
    by_id = {each: row for row in rows for each in row.ids}
    assert _ids(rows) == sorted([sleeping, starting, deleting, never_seen, broken])
    assert by_id[broken].has_error
    assert by_id[broken].is_terminal
    assert not by_id[sleeping].has_error
    assert by_id[deleting].deleted_at == now

    named = await observations.load_named(session, [archived, surprising, sleeping, gone, uuid7()])
    assert _ids(named) == sorted([archived, surprising, sleeping])


async def test_what_says_the_same_comes_together(session: Session) -> None:
    asleep = {await make_workspace(session, observed_status="STANDBY") for _ in range(3)}
    running = await make_workspace(session, observed_status="RUNNING", desired_state="RUNNING")
    rows = await observations.load_watched(session, after=observations.FIRST_PAGE, limit=100)
    assert sorted(len(row.ids) for row in rows) == [1, 3]
    assert {row.observed_status: set(row.ids) for row in rows} == {STANDBY: asleep, RUNNING: {running}}


async def test_stamps_touch_only_what_is_in_flight_and_tell_nobody(session: Session) -> None:
    acting = await make_workspace(session, operation="STARTING")
    resting = await make_workspace(session)
    now = await statements.now(session)
    assert await observations.stamp_in_flight(session, [acting, resting, uuid4()], observed_at=now) == 1
    assert await observations.stamp_in_flight(session, [acting], observed_at=now) == 0
    stamped = await view(session, acting)
    assert (stamped.observed_at, stamped.version) == (now, 1)


async def test_old_stamps_are_refreshed_in_bulk_and_bounded(session: Session) -> None:
    now = await statements.now(session)
    hour = timedelta(hours=1)
    old = [await make_workspace(session, observed_at=now - age * hour) for age in (3, 2, 4)]
    young = await make_workspace(session, observed_at=now)
    gone = await make_workspace(session, observed_at=now - 9 * hour, observed_status="DELETED")

    assert await observations.stamp_coarse(session, observed_at=now, older_than=now - hour, limit=2) == 2
    fresh = set(await session.exec(select(col(Workspace.id)).where(col(Workspace.observed_at) == now)))
    assert fresh == {old[2], old[0], young}
    assert await observations.stamp_coarse(session, observed_at=now, older_than=now - hour) == 1
    assert (await view(session, gone)).observed_at == now - 9 * hour


async def test_the_observer_speaks_of_an_error_once(session: Session) -> None:
    workspace_id = await make_workspace(session)
    first = await an_error(session, terminal=True, count=0)
    second = await an_error(session, terminal=True, count=9)
    assert await observations.set_invariant_error(session, workspace_id, first)
    assert not await observations.set_invariant_error(session, workspace_id, second)
    assert (await view(session, workspace_id)).error_info == first


async def test_two_bulk_writers_in_opposite_order_do_not_deadlock(
    session: Session, session_factory: Sessions
) -> None:
    ids = [await make_workspace(session) for _ in range(40)]
    now = await statements.now(session)

    async def look(order: list[int], status: ObservedStatus) -> None:
        """Two bulk writes, the second of lower ids than the first, as a look may need."""
        async with session_factory.begin() as own:
            await lock_in_order(own, ids)
            await observations.write_observations(own, [Observed(ids[39], status, OK)], observed_at=now)
            observed = [Observed(ids[index], status, OK) for index in order]
            await observations.write_observations(own, observed, observed_at=now)

    async def plan(order: list[int], memo: str) -> None:
        async with session_factory.begin() as own:
            await lock_in_order(own, [ids[index] for index in order])
            for index in order:
                await own.exec(update(w).where(w.c.id == ids[index]).values(memo=memo))

    forward, backward = list(range(40)), list(range(39, -1, -1))
    async with asyncio.timeout(60):
        await asyncio.gather(
            *(look(backward, status) for status in (STANDBY, RUNNING, STANDBY)),
            *(plan(order, str(number)) for number, order in enumerate((forward, backward, forward))),
        )


def _ids(rows: Sequence[Observable]) -> list[UUID]:
    return sorted(each for row in rows for each in row.ids)
