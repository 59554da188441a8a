"""Intents are written where they may be, and lists find what they should."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from codehub.domain import home
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.kit.ids import uuid7
from codehub.store.db import statements
from codehub.store.db.session import Session, Sessions
from codehub.store.errors import NameTaken
from codehub.store.workspaces import claims, intents, observations, queries, ttl
from codehub.store.workspaces.observations import Observed
from tests.integration.store.factory import make_user, make_workspace, view


async def create(session: Session, owner_id: UUID, name: str) -> UUID:
    record = await intents.create(
        session, workspace_id=uuid7(), owner_id=owner_id, name=name, image_ref="jupyterlab"
    )
    return record.view.id


async def test_a_new_workspace_has_nothing_and_wants_nothing(session: Session) -> None:
    owner = await make_user(session)
    record = await intents.create(
        session, workspace_id=uuid7(), owner_id=owner, name="mine", image_ref="jupyterlab", memo="m"
    )
    ws = record.view
    assert (ws.desired_state, ws.observed_status, ws.operation) == (
        DesiredState.PENDING,
        ObservedStatus.PENDING,
        Operation.NONE,
    )
    assert (record.name, record.memo, record.status, ws.version) == ("mine", "m", "new", 1)
    assert (ws.standby_ttl_seconds, ws.archive_ttl_seconds) == (300, 86400)
    assert await queries.find(session, ws.id) == record
    assert await queries.find_many(session, [ws.id, uuid4()]) == [record]
    assert await queries.find(session, uuid4()) is None


async def test_a_name_is_unique_among_the_live_ones_of_its_owner(session: Session) -> None:
    owner, other = await make_user(session), await make_user(session)
    first = await create(session, owner, "notes")
    await create(session, other, "notes")
    with pytest.raises(NameTaken, match="notes"):
        await create(session, owner, "notes")
    second = await create(session, owner, "more")
    with pytest.raises(NameTaken, match="notes"):
        await intents.update_details(session, second, name="notes")
    assert await intents.mark_deleted(session, first)
    assert await intents.update_details(session, second, name="notes") is not None


async def test_details_change_and_nothing_else_can(session: Session) -> None:
    workspace_id = await make_workspace(session)
    changed = await intents.update_details(session, workspace_id, memo="new", standby_ttl_seconds=0)
    assert changed is not None
    assert (changed.memo, changed.view.standby_ttl_seconds, changed.view.version) == ("new", 0, 2)
    assert await intents.update_details(session, uuid4(), memo="x") is None
    with pytest.raises(ValueError, match="operation"):
        await intents.update_details(session, workspace_id, operation="NONE")


async def test_an_intent_is_compared_and_set(session: Session) -> None:
    workspace_id = await make_workspace(session, desired_state="RUNNING")
    before = await view(session, workspace_id)
    assert not await intents.set_desired(
        session, workspace_id, DesiredState.PENDING, expected=DesiredState.STANDBY, touch=False
    )
    assert await intents.set_desired(
        session, workspace_id, DesiredState.STANDBY, expected=DesiredState.RUNNING, touch=False
    )
    after = await view(session, workspace_id)
    assert after.desired_state is DesiredState.STANDBY
    assert after.last_access_at == before.last_access_at
    assert await intents.set_desired(session, workspace_id, DesiredState.RUNNING)
    assert (await view(session, workspace_id)).last_access_at > before.last_access_at


async def test_the_deleted_take_no_intents(session: Session) -> None:
    workspace_id = await make_workspace(session)
    now = await statements.now(session)
    assert await intents.mark_deleted(session, workspace_id)
    assert not await intents.mark_deleted(session, workspace_id)
    assert not await intents.set_desired(session, workspace_id, DesiredState.RUNNING)
    assert not await intents.set_awake_until(session, workspace_id, now)
    assert await intents.extend_active_until(session, [workspace_id], now) == 0


async def test_in_use_is_only_ever_extended(session: Session) -> None:
    workspace_id = await make_workspace(session)
    now = await statements.now(session)
    assert await intents.extend_active_until(session, [workspace_id], now) == 1
    assert await intents.extend_active_until(session, [workspace_id], now - timedelta(minutes=1)) == 0
    assert (await view(session, workspace_id)).active_until == now


async def test_recovery_lifts_the_error_and_accepts_a_vanished_volume(session: Session) -> None:
    workspace_id = await make_workspace(session, error_count=4, home_ctx={"volume": True, "crashes": 4})
    lost = await view(session, workspace_id)
    told = home.volume_vanished(lost, now=await statements.now(session))
    assert await claims.set_error_without_operation(session, lost, told, home=lost.home)
    answer = [Observed(workspace_id, ObservedStatus.PENDING, HealthStatus.ERROR)]
    await observations.write_observations(session, answer, observed_at=await statements.now(session))
    seen = await view(session, workspace_id)
    assert await intents.recover(session, workspace_id, home=home.at_recovery(seen))
    after = await view(session, workspace_id)
    assert (after.error_info, after.error_count) == (None, 0)
    assert (after.home.volume, after.home.crashes) == (False, 0)
    assert not await intents.recover(session, workspace_id, home=after.home)


async def test_a_locked_row_waits_for_its_transaction(session: Session, session_factory: Sessions) -> None:
    workspace_id = await make_workspace(session)
    assert await queries.find_locked(session, workspace_id) is not None
    async with session_factory() as other:
        await other.exec(text("SET LOCAL lock_timeout = '10ms'"))
        with pytest.raises(Exception, match="lock timeout"):
            await intents.set_desired(other, workspace_id, DesiredState.RUNNING)


async def test_lists_are_paged_newest_first_and_show_no_ghosts(session: Session) -> None:
    owner = await make_user(session)
    ids = [await make_workspace(session, owner) for _ in range(7)]
    elsewhere = await make_workspace(session)
    gone = await make_workspace(session, owner, observed_status="DELETED")

    found: list[UUID] = []
    cursor: str | None = None
    while True:
        page = await queries.list_page(
            session, owner_id=owner, cursor=UUID(cursor) if cursor else None, limit=3
        )
        found += [record.view.id for record in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert found == sorted(ids, reverse=True)
    assert await queries.list_ids(session, owner_id=owner) == sorted(ids)
    assert {*ids, elsewhere} == set(await queries.list_ids(session))
    everybody = (await queries.list_page(session)).items
    assert {record.view.id for record in everybody} == {*ids, elsewhere}
    deleted = (await queries.list_page(session, status="deleted")).items
    assert [record.view.id for record in deleted] == [gone]


@pytest.mark.parametrize(
    ("q", "names"),
    [
        ("alpha", {"Alpha 100%"}),
        ("100%", {"Alpha 100%"}),
        ("%", {"Alpha 100%"}),
        ("_", {"beta_1"}),
        ("\\", {"back\\slash"}),
        ("project", {"beta_1"}),
        ("nothing", set()),
    ],
)
async def test_a_search_takes_its_words_literally(q: str, names: set[str], session: Session) -> None:
    owner = await make_user(session)
    for name, description in (("Alpha 100%", ""), ("beta_1", "My Project"), ("back\\slash", "")):
        await make_workspace(session, owner, name=name, description=description)
    page = await queries.list_page(session, q=q)
    assert {record.name for record in page.items} == names


async def test_lists_filter_and_count_by_status(session: Session) -> None:
    await make_workspace(session, observed_status="STANDBY", desired_state="STANDBY")
    running = await make_workspace(session, observed_status="RUNNING", desired_state="RUNNING")
    await make_workspace(session, archive_key="key", home_ctx={"restore_marker": "key"})
    page = await queries.list_page(session, status="running")
    assert [record.view.id for record in page.items] == [running]
    assert await queries.count_by_status(session) == {"standby": 1, "running": 1, "archived": 1}


async def test_who_may_be_put_to_sleep_and_who_is_forgotten(session: Session) -> None:
    now = await statements.now(session)
    ahead, long_ago = now + timedelta(hours=1), now - timedelta(days=2)
    running = {"desired_state": "RUNNING", "observed_status": "RUNNING"}
    sleeping = {"desired_state": "STANDBY", "observed_status": "STANDBY", "last_access_at": long_ago}

    idle = await make_workspace(session, None, **running)
    await make_workspace(session, None, **running, awake_until=ahead)
    await make_workspace(session, None, **running, active_until=ahead)
    await make_workspace(session, None, **running, standby_ttl_seconds=0)
    await make_workspace(session, None, **running, health_status="ERROR")
    await make_workspace(session, None, **running, operation="STOPPING")
    assert [
        ws.id for ws in await ttl.load_standby_candidates(session, now=now, after=ttl.FIRST_PAGE, limit=100)
    ] == [idle]

    forgotten = await make_workspace(session, None, **sleeping)
    await make_workspace(session, None, **sleeping, awake_until=ahead)
    await make_workspace(session, None, **sleeping, archive_ttl_seconds=0)
    await make_workspace(session, None, **sleeping, archive_ttl_seconds=3 * 86400)
    await make_workspace(session, None, **sleeping, deleted_at=now)
    assert [ws.id for ws in await ttl.load_archive_candidates(session, now=now, limit=100)] == [forgotten]


async def test_use_postpones_the_archive(session: Session) -> None:
    now = await statements.now(session)
    workspace_id = await make_workspace(
        session,
        desired_state="STANDBY",
        observed_status="STANDBY",
        last_access_at=now - timedelta(days=2),
    )
    assert await intents.touch(session, [workspace_id]) == 1
    assert await ttl.load_archive_candidates(session, now=now, limit=100) == []
    tomorrow = now + timedelta(days=1, minutes=1)
    assert len(await ttl.load_archive_candidates(session, now=tomorrow, limit=100)) == 1
