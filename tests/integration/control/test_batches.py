"""However many workspaces there are, a transaction of the Observer or the TTL manager has a bounded size."""

from collections import Counter
from uuid import UUID

import asyncpg
import pytest
from prometheus_client import REGISTRY
from sqlalchemy import Text, text

from codehub.coordinators import observer, ttl_manager
from codehub.coordinators.leadership import Leadership
from codehub.coordinators.observer import Observer
from codehub.coordinators.ttl_manager import TtlManager
from codehub.coordinators.wake_signal import CoordinatorHints, WakeSignal
from codehub.domain.limits import RunningLimits
from codehub.domain.states import DesiredState, ObservedStatus
from codehub.domain.ttl import UsePolicy
from codehub.signals.activity import EPOCH_KEY, ActivityLog
from codehub.signals.connection import RedisLink
from codehub.signals.hints import LocalHints
from codehub.store import control
from codehub.store.db.connections import coordinator_connector
from codehub.store.db.session import Session, Sessions
from codehub.store.db.typed_text import typed_text
from codehub.store.workspaces import observations, ttl
from tests.integration.store.factory import make_user, make_workspace
from tests.support.fake_runtime import FakeEngine, FakeRuntime, Place
from tests.support.redis import RedisServer

BATCH = 3


@pytest.fixture
def coordinator_hints() -> CoordinatorHints:
    return CoordinatorHints(LocalHints())


async def elected(database_url: str, name: str) -> Leadership:
    leadership = Leadership(
        store=control,
        connector=coordinator_connector(database_url),
        name=f"coordinator:{name}",
        holder_id="one",
    )
    await leadership.acquire()
    return leadership


async def rows_of_each_transaction(session: Session, ids: list[UUID]) -> list[int]:
    """How many of these rows were last written together."""
    written = await session.exec(typed_text("SELECT xmin::text FROM workspaces", Text()))
    assert len(written) == len(ids)
    return sorted(Counter(written).values())


async def test_the_observer_writes_what_it_saw_in_batches(
    database_url: str, session: Session, coordinator_hints: CoordinatorHints
) -> None:
    owner = await make_user(session)
    ids = [
        await make_workspace(session, owner, desired_state=DesiredState.STANDBY, observed_status="STANDBY")
        for _ in range(8)
    ]
    leadership = await elected(database_url, "observer")
    try:
        looking = Observer(
            store=control,
            leadership=leadership,
            runtime=FakeRuntime(FakeEngine()),  # where nothing is: all eight homes are gone
            coordinator_hints=coordinator_hints,
            wake_signal=WakeSignal(),
            timing=observer.Timing(batch_size=BATCH),
        )
        report = await looking.tick(None)
    finally:
        await leadership.release()
    assert (report.seen, report.changed) == (8, 8)
    statuses = await session.exec(typed_text("SELECT DISTINCT observed_status::text FROM workspaces", Text()))
    assert list(statuses) == [ObservedStatus.PENDING.value]
    assert await rows_of_each_transaction(session, ids) == [2, 3, 3]


async def test_what_the_observer_saw_of_rows_at_rest_is_asked_for_in_batches(
    database_url: str, session: Session, coordinator_hints: CoordinatorHints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Homes that came from nowhere: at rest on record, and more of them than fit into one batch."""
    owner = await make_user(session)
    ids = [await make_workspace(session, owner) for _ in range(7)]
    engine = FakeEngine()
    engine.places |= {each: Place(volume={}) for each in ids}
    asked: list[int] = []
    load_named = observations.load_named

    async def count(session: Session, named: list[UUID]) -> list[observations.Observable]:
        asked.append(len(named))
        return await load_named(session, named)

    monkeypatch.setattr(control, "load_named", count)
    leadership = await elected(database_url, "observer")
    try:
        looking = Observer(
            store=control,
            leadership=leadership,
            runtime=FakeRuntime(engine),
            coordinator_hints=coordinator_hints,
            wake_signal=WakeSignal(),
            timing=observer.Timing(batch_size=BATCH),
        )
        report = await looking.tick(None)
    finally:
        await leadership.release()
    assert report.changed == 7
    assert sorted(asked) == [1, 3, 3]
    assert REGISTRY.get_sample_value("codehub_orphan_resources", {"kind": "volume"}) == 0
    assert await rows_of_each_transaction(session, ids) == [1, 3, 3]


async def test_every_watched_row_is_on_one_page(session: Session) -> None:
    owner = await make_user(session)
    ids = sorted([await make_workspace(session, owner, observed_status="STANDBY") for _ in range(7)])
    pages: list[list[UUID]] = []
    after = observations.FIRST_PAGE
    while True:
        rows = await observations.load_watched(session, after=after, limit=BATCH)
        pages.append(sorted(each for row in rows for each in row.ids))
        if len(pages[-1]) < BATCH:
            break
        after = pages[-1][-1]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [each for page in pages for each in page] == ids


async def test_the_ttl_manager_reads_and_lowers_in_batches(
    database_url: str,
    session_factory: Sessions,
    redis_link: RedisLink,
    redis_server: RedisServer,
    coordinator_hints: CoordinatorHints,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    long_ago = text("UPDATE workspaces SET last_access_at = now() - interval '1 day'")
    async with session_factory() as session:
        owner = await make_user(session)
        for _ in range(5):
            await make_workspace(session, owner, desired_state="RUNNING", observed_status="RUNNING")
        await session.exec(long_ago)
        await session.commit()
    activity = ActivityLog(redis_link)
    await activity.identity()
    redis_server.admin.hset(EPOCH_KEY, "born", 0)  # a memory old enough to be believed
    pages: list[int] = []
    load = ttl.load_standby_candidates

    async def count(session: Session, **asked: object) -> list[object]:
        found = await load(session, **asked)  # type: ignore[arg-type]
        pages.append(len(found))
        return list(found)

    monkeypatch.setattr(control, "load_standby_candidates", count)
    leadership = await elected(database_url, "ttl")
    try:
        manager = TtlManager(
            store=control,
            leadership=leadership,
            activity=activity,
            coordinator_hints=coordinator_hints,
            wake_signal=WakeSignal(),
            timing=ttl_manager.Timing(batch_size=BATCH),
            policy=UsePolicy(),
            limits=RunningLimits(),
        )
        first = await manager.tick(None)
        assert (first.seen, first.changed) == (5, 3)
        assert pages == [3, 2]
        assert manager.next_wait_seconds() == 0  # the rest does not wait for a minute
        second = await manager.tick(None)
        assert (second.seen, second.changed) == (2, 2)
        assert manager.next_wait_seconds() > 0
    finally:
        await leadership.release()


async def test_lock_calls_have_bound_parameters_only(database_url: str) -> None:
    """The key is a parameter in every statement: none of them is put together from text."""
    sent: list[str] = []

    class Listening:
        async def connect(self) -> "asyncpg.Connection[asyncpg.Record]":
            connection = await coordinator_connector(database_url).connect()
            connection.add_query_logger(lambda query: sent.append(query.query))
            return connection

    first = Leadership(
        store=control,
        connector=coordinator_connector(database_url),
        name="coordinator:bound",
        holder_id="first",
    )
    second = Leadership(store=control, connector=Listening(), name="coordinator:bound", holder_id="second")
    await first.acquire()
    connection = second._connection = await Listening().connect()
    try:
        await connection.execute("SET lock_timeout = '100ms'")
        assert not await second._try_lock(connection)
        await first.release()
        assert await second._try_lock(connection)
    finally:
        await first.release()
        await second.discard()
    about_locks = [query for query in sent if "advisory" in query or "lock_key" in query]
    assert about_locks
    assert [query for query in about_locks if str(abs(second._key)) in query] == []
