"""What people are told about coordinators: of who leads now, whichever process they ask."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import structlog
from prometheus_client import REGISTRY
from sqlalchemy import text

from codehub.archives.store import ArchiveStore
from codehub.coordinators.reconciler import breakers
from codehub.domain.errors import EffectError, FailureCode
from codehub.server.control_plane import ControlPlane
from codehub.server.coordinator_health import CoordinatorHealth
from tests.support.control import ControlEnvironment, fast_settings
from tests.support.fake_runtime import FakeEngine, FakeRuntime
from tests.support.waiting import until


async def told(environment: ControlEnvironment, plane: ControlPlane | None) -> dict[str, dict[str, Any]]:
    """What the process of this control plane answers."""
    report = await CoordinatorHealth(environment.settings, plane, environment.sessions)()
    coordinators: dict[str, dict[str, Any]] = report["coordinators"]
    return coordinators


async def until_leads(environment: ControlEnvironment, node_id: str) -> None:
    async def leads() -> bool:
        return {each["holder_id"] for each in (await told(environment, None)).values()} == {node_id}

    await until(leads, seconds=60, what=f"{node_id} to lead")


async def test_a_replaced_leader_tells_what_its_successor_does(environment: ControlEnvironment) -> None:
    """It is deposed, and its loops remember their last tick and why they ended."""
    async with environment.replica("one") as one:
        await until_leads(environment, "one")
        async with environment.replica("two") as two:

            async def one_is_replaced() -> bool:
                terms = [loop.leadership.term for loop in one.loops.values()]
                pids = [term.backend_pid for term in terms if term is not None]
                async with environment.sessions() as session, session.begin():
                    await session.exec(
                        text("SELECT pg_terminate_backend(pid) FROM unnest(cast(:pids AS int[])) AS pid"),
                        {"pids": pids},
                    )
                return all(loop.leadership.is_leader for loop in two.loops.values())

            await until(one_is_replaced, seconds=60, what="the second to lead all")
            replaced_at = datetime.now(UTC)

            async def told_of_a_later_tick() -> bool:
                tick = (await told(environment, one))["observer"]["last_tick_at"]
                return tick is not None and tick > replaced_at

            await until(told_of_a_later_tick, seconds=30, what="the first to tell of the second's ticks")
            for name, health in (await told(environment, one)).items():
                assert (name, health["holder_id"], health["is_leader"]) == (name, "two", False)
                assert (name, health["last_error"]) == (name, None)
            assert all(each["is_leader"] for each in (await told(environment, two)).values())


async def test_every_process_tells_the_leader_s_error_while_it_lasts(environment: ControlEnvironment) -> None:
    engine = FakeEngine()
    async with environment.replica("one", runtime=FakeRuntime(engine)):
        await until_leads(environment, "one")
        engine.away = True

        async def told_of_it() -> bool:
            return (await told(environment, None))["observer"]["last_error"] is not None

        await until(told_of_it, what="another process to tell the Observer's error")
        engine.away = False

        async def told_that_it_is_over() -> bool:
            return (await told(environment, None))["observer"]["last_error"] is None

        await until(told_that_it_is_over, what="the error to be taken back")


async def test_a_leader_that_was_frozen_does_not_tell_of_itself(
    environment: ControlEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thawed, it may remember for ever that it leads: nothing has told it otherwise yet."""
    async with environment.replica("one") as one:
        await until_leads(environment, "one")
        remembered = one.health()
        assert all(each["is_leader"] for each in remembered.values())
    monkeypatch.setattr(one, "health", lambda: remembered)
    async with environment.replica("two"):
        await until_leads(environment, "two")
        for name, health in (await told(environment, one)).items():
            assert (name, health["holder_id"], health["is_leader"]) == (name, "two", False)


class WrongKey(ArchiveStore):
    wrong = True

    async def probe(self) -> None:
        if self.wrong:
            raise EffectError(FailureCode.S3_ACCESS_ERROR, "the signature does not match")
        await super().probe()


async def test_a_store_that_cannot_be_used_is_told_before_anybody_needs_it(
    environment: ControlEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(breakers, "CHECK_EVERY", timedelta(seconds=0.1))
    store = WrongKey.from_url(environment.archive_url)
    assert isinstance(store, WrongKey)
    async with environment.replica(archives=store) as plane:

        async def away() -> dict[str, str]:
            found: dict[str, str] = (await told(environment, plane))["wc"]["away"]
            return found

        assert "signature" in (await until(away, what="the store to be told of"))["archives"]
        store.wrong = False

        async def is_over() -> bool:
            return await away() == {}

        await until(is_over, what="the end of it to be told")


async def test_a_store_away_is_one_line_a_minute_and_no_traceback(environment: ControlEnvironment) -> None:
    store = WrongKey.from_url(environment.archive_url)
    before = failures()
    with structlog.testing.capture_logs() as logged:
        async with environment.replica(archives=store):

            async def failed_often() -> bool:
                return failures() > before + 3

            await until(failed_often, seconds=60, what="the garbage collector to have failed often")
    said = [each for each in logged if each["event"].startswith("tick failed")]
    assert [each["coordinator"] for each in said] == ["gc"]
    assert "exc_info" not in said[0]


def failures() -> float:
    return REGISTRY.get_sample_value("codehub_tick_failures_total", {"coordinator": "gc"}) or 0.0


async def test_nobody_leads_what_nobody_holds(environment: ControlEnvironment) -> None:
    async with environment.replica("one"):
        await until_leads(environment, "one")
    health = await told(environment, None)
    assert {each["holder_id"] for each in health.values()} == {None}
    assert {each["last_tick_at"] for each in health.values()} == {None}


async def test_replicas_with_different_lock_ids_are_seen_and_shouted_about(
    environment: ControlEnvironment,
) -> None:
    blue = fast_settings(COORDINATOR_LOCK_ID="blue")
    with structlog.testing.capture_logs() as logged:
        async with environment.replica("one") as one, environment.replica("two", settings=blue) as two:

            async def two_leaders_of_each() -> bool:
                return all(loop.leadership.is_leader for plane in (one, two) for loop in plane.loops.values())

            await until(two_leaders_of_each, seconds=60, what="two leaders of each")
            for name, health in (await told(environment, one)).items():
                assert health["rivals"] == [{"holder_id": "two", "lock_name": f"blue:coordinator:{name}"}]
            other = await CoordinatorHealth(blue, two, environment.sessions)()
            for name, health in other["coordinators"].items():
                assert health["rivals"] == [{"holder_id": "one", "lock_name": f"coordinator:{name}"}]

            async def shouted() -> bool:
                said = [each for each in logged if each["event"].startswith("two leaders of one coordinator")]
                return {each["coordinator"] for each in said} == set(one.loops)

            await until(shouted, seconds=30, what="every coordinator to log it")
            assert REGISTRY.get_sample_value("codehub_rival_leaders", {"coordinator": "wc"}) == 1
    assert (await told(environment, None))["wc"]["rivals"] == []
