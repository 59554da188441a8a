"""When an idle workspace sleeps and a forgotten one is archived: one case for each reason not to."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.ttl import (
    Activity,
    Awake,
    AwakeBecause,
    NextChange,
    UsePolicy,
    archives_now,
    is_mass_idle,
    next_change,
    sleeps_now,
    why_awake,
)

from .builders import NOW, minutes, seconds, workspace

D, S = DesiredState, ObservedStatus
IDLE = workspace(desired_state=D.RUNNING, observed_status=S.RUNNING, last_access_at=NOW - minutes(6))
FORGOTTEN = workspace(
    desired_state=D.STANDBY, observed_status=S.STANDBY, last_access_at=NOW - timedelta(days=1, seconds=1)
)
QUIET = Activity()
POLICY = UsePolicy()
SOON = NOW + seconds(1)
BUSY_WITH = [operation for operation in Operation if operation is not Operation.NONE]

STAYS_AWAKE: dict[str, dict[str, Any]] = {
    "ttl-0": {"standby_ttl_seconds": 0},
    "kept-awake": {"awake_until": SOON},
    "in-use-says-postgres": {"active_until": SOON},
    "wants-standby": {"desired_state": D.STANDBY},
    "wants-pending": {"desired_state": D.PENDING},
    "seen-standby": {"observed_status": S.STANDBY},
    "seen-pending": {"observed_status": S.PENDING},
    "error": {"health_status": HealthStatus.ERROR},
    "deleted": {"deleted_at": NOW},
    "just-came-up": {"last_access_at": NOW - minutes(5)},
    **{f"busy-{operation}": {"operation": operation} for operation in BUSY_WITH},
}

STAYS_STANDBY: dict[str, dict[str, Any]] = {
    "ttl-0": {"archive_ttl_seconds": 0},
    "kept-awake": {"awake_until": SOON},
    "wants-running": {"desired_state": D.RUNNING},
    "wants-pending": {"desired_state": D.PENDING},
    "seen-running": {"observed_status": S.RUNNING},
    "seen-pending": {"observed_status": S.PENDING},
    "error": {"health_status": HealthStatus.ERROR},
    "deleted": {"deleted_at": NOW},
    "exactly-at-its-ttl": {"last_access_at": NOW - timedelta(days=1)},
    **{f"busy-{operation}": {"operation": operation} for operation in BUSY_WITH},
}


class TestSleep:
    def test_an_idle_workspace_sleeps(self) -> None:
        assert sleeps_now(IDLE, activity=QUIET, now=NOW, policy=POLICY)

    @pytest.mark.parametrize("changed", STAYS_AWAKE.values(), ids=STAYS_AWAKE)
    def test_it_stays_awake(self, changed: dict[str, Any]) -> None:
        assert not sleeps_now(replace(IDLE, **changed), activity=QUIET, now=NOW, policy=POLICY)

    @pytest.mark.parametrize(
        "activity",
        [Activity(connections=1), Activity(idle_timer=seconds(1)), Activity(idle_timer=timedelta(0))],
        ids=["connected", "timer", "timer-about-to-expire"],
    )
    def test_it_stays_awake_while_in_use(self, activity: Activity) -> None:
        assert not sleeps_now(IDLE, activity=activity, now=NOW, policy=POLICY)

    @pytest.mark.parametrize("column", ["awake_until", "active_until"])
    def test_a_promise_that_is_over_holds_nothing(self, column: str) -> None:
        over: dict[str, Any] = {column: NOW}
        assert sleeps_now(replace(IDLE, **over), activity=QUIET, now=NOW, policy=POLICY)


class TestArchive:
    def test_a_forgotten_workspace_is_archived(self) -> None:
        assert archives_now(FORGOTTEN, now=NOW)

    @pytest.mark.parametrize("changed", STAYS_STANDBY.values(), ids=STAYS_STANDBY)
    def test_it_stays(self, changed: dict[str, Any]) -> None:
        assert not archives_now(replace(FORGOTTEN, **changed), now=NOW)

    def test_a_keep_awake_that_is_over_holds_nothing(self) -> None:
        assert archives_now(replace(FORGOTTEN, awake_until=NOW - minutes(1)), now=NOW)
        assert not archives_now(replace(FORGOTTEN, awake_until=NOW), now=NOW)  # until the moment itself


class TestWhatPeopleAreTold:
    def test_sleep_comes_when_the_timer_ends(self) -> None:
        told = next_change(IDLE, activity=Activity(idle_timer=minutes(4)), now=NOW, policy=POLICY)
        assert told == NextChange(D.STANDBY, NOW + minutes(4), "idle for 5 min")

    def test_what_is_due_is_due_now(self) -> None:
        assert next_change(IDLE, activity=QUIET, now=NOW, policy=POLICY) == NextChange(
            D.STANDBY, NOW, "idle for 5 min"
        )

    @pytest.mark.parametrize("column", ["awake_until", "active_until"])
    def test_a_promise_moves_it(self, column: str) -> None:
        promise: dict[str, Any] = {column: NOW + minutes(30)}
        told = next_change(replace(IDLE, **promise), activity=QUIET, now=NOW, policy=POLICY)
        assert told is not None
        assert told.at == NOW + minutes(30)

    def test_one_that_just_came_up_has_its_whole_idle_period(self) -> None:
        told = next_change(replace(IDLE, last_access_at=NOW), activity=QUIET, now=NOW, policy=POLICY)
        assert told is not None
        assert told.at == NOW + minutes(5)

    def test_no_promise_while_activity_is_unknown(self) -> None:
        assert next_change(IDLE, activity=None, now=NOW, policy=POLICY) is None

    def test_the_archive_comes_after_its_ttl(self) -> None:
        view = replace(FORGOTTEN, last_access_at=NOW - timedelta(hours=1))
        told = next_change(view, activity=QUIET, now=NOW, policy=POLICY)
        assert told == NextChange(D.PENDING, NOW + timedelta(hours=23), "not used for 1 d")

    def test_a_forgotten_one_is_due_now_unless_kept_awake(self) -> None:
        told = next_change(FORGOTTEN, activity=None, now=NOW, policy=POLICY)
        assert told is not None
        assert told.at == NOW
        told = next_change(replace(FORGOTTEN, awake_until=SOON), activity=None, now=NOW, policy=POLICY)
        assert told is not None
        assert told.at == SOON

    @pytest.mark.parametrize("ttl", ["standby_ttl_seconds", "archive_ttl_seconds"])
    def test_ttl_0_is_never(self, ttl: str) -> None:
        view = IDLE if ttl == "standby_ttl_seconds" else FORGOTTEN
        never: dict[str, Any] = {ttl: 0}
        assert next_change(replace(view, **never), activity=QUIET, now=NOW, policy=POLICY) is None

    @pytest.mark.parametrize("held", [NOW + minutes(1), NOW + minutes(90)])
    def test_the_promise_is_kept(self, held: Any) -> None:
        """At the moment that was told, and not before, the TTL manager agrees."""
        view = replace(IDLE, awake_until=held, last_access_at=NOW)
        told = next_change(view, activity=QUIET, now=NOW, policy=POLICY)
        assert told is not None
        assert not sleeps_now(view, activity=QUIET, now=told.at - seconds(1), policy=POLICY)
        assert sleeps_now(view, activity=QUIET, now=told.at + seconds(1), policy=POLICY)


OPENED = replace(IDLE, last_access_at=NOW - timedelta(days=2))
TAB = Activity(connections=1, idle_timer=minutes(6), last_seen_at=NOW, input_age=timedelta(hours=9))
SHORT = UsePolicy(untouched_limit=minutes(10))


class TestUntouched:
    @pytest.mark.parametrize(
        ("input_age", "sleeps"),
        [(minutes(0), False), (minutes(10), False), (minutes(10) + seconds(1), True), (None, False)],
    )
    def test_an_open_tab_counts_while_it_is_touched(self, input_age: timedelta | None, sleeps: bool) -> None:
        tab = replace(TAB, input_age=input_age)
        assert sleeps_now(OPENED, activity=tab, now=NOW, policy=SHORT) is sleeps

    def test_with_limit_0_it_counts_for_ever(self) -> None:
        for_ever = UsePolicy(untouched_limit=timedelta(0))
        assert not sleeps_now(OPENED, activity=TAB, now=NOW, policy=for_ever)
        assert next_change(OPENED, activity=TAB, now=NOW, policy=for_ever) is None

    def test_what_redis_forgot_may_have_been_input(self) -> None:
        """Nothing counts as untouched for longer than Redis remembers."""
        flushed = replace(TAB, memory_age=minutes(10))
        assert not sleeps_now(OPENED, activity=flushed, now=NOW, policy=SHORT)
        later = replace(TAB, memory_age=minutes(10) + seconds(1))
        assert sleeps_now(OPENED, activity=later, now=NOW, policy=SHORT)

    @pytest.mark.parametrize("ttl", [5, 20, 89])
    def test_no_limit_is_shorter_than_reports_may_take(self, ttl: int) -> None:
        quick = UsePolicy(untouched_limit=seconds(1))
        view = replace(OPENED, standby_ttl_seconds=ttl)
        assert not sleeps_now(view, activity=replace(TAB, input_age=seconds(90)), now=NOW, policy=quick)
        assert sleeps_now(view, activity=replace(TAB, input_age=seconds(91)), now=NOW, policy=quick)

    def test_a_longer_idle_period_is_kept(self) -> None:
        view = replace(OPENED, standby_ttl_seconds=3600)
        tab = replace(TAB, input_age=minutes(59))
        assert not sleeps_now(view, activity=tab, now=NOW, policy=SHORT)
        told = next_change(view, activity=tab, now=NOW, policy=SHORT)
        assert told == NextChange(D.STANDBY, NOW + minutes(1), "open but untouched for 10 min")

    @pytest.mark.parametrize("column", ["awake_until", "active_until"])
    def test_a_promise_holds_it(self, column: str) -> None:
        promise: dict[str, Any] = {column: SOON}
        assert not sleeps_now(replace(OPENED, **promise), activity=TAB, now=NOW, policy=SHORT)

    def test_the_promise_is_kept(self) -> None:
        tab = replace(TAB, input_age=minutes(4))
        told = next_change(OPENED, activity=tab, now=NOW, policy=SHORT)
        assert told == NextChange(D.STANDBY, NOW + minutes(6), "open but untouched for 10 min")
        for moved, sleeps in ((-1, False), (1, True)):
            at = told.at + seconds(moved)
            later = replace(tab, input_age=at - NOW + minutes(4))
            assert sleeps_now(OPENED, activity=later, now=at, policy=SHORT) is sleeps


@pytest.mark.parametrize(
    ("changed", "activity", "because"),
    [
        ({"standby_ttl_seconds": 0}, TAB, Awake(AwakeBecause.NEVER)),
        ({"awake_until": SOON}, TAB, Awake(AwakeBecause.KEPT)),
        ({}, None, Awake(AwakeBecause.UNKNOWN)),
        ({"active_until": SOON}, TAB, Awake(AwakeBecause.UNKNOWN)),
        ({}, replace(TAB, input_age=minutes(4)), Awake(AwakeBecause.OPEN, NOW - minutes(4))),
        (
            {"last_access_at": NOW - minutes(2)},
            Activity(idle_timer=minutes(1)),
            Awake(AwakeBecause.USED, NOW - minutes(2)),
        ),
        ({}, TAB, None),
        ({"observed_status": S.STANDBY}, TAB, None),
    ],
)
def test_people_are_told_what_keeps_it_awake(
    changed: dict[str, Any], activity: Activity | None, because: Awake | None
) -> None:
    told = why_awake(replace(OPENED, **changed), activity=activity, now=NOW, policy=SHORT)
    assert told == because


@pytest.mark.parametrize(
    ("newly_idle", "running", "suspicious"),
    [
        (0, 0, False),
        (5, 5, False),
        (6, 6, True),
        (6, 25, True),
        (20, 100, False),
        (21, 100, True),
        (6, 100, False),
    ],
)
def test_more_than_a_fifth_and_more_than_five_at_once_is_suspicious(
    newly_idle: int, running: int, suspicious: bool
) -> None:
    assert is_mass_idle(newly_idle=newly_idle, running=running) is suspicious
