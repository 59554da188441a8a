"""When an idle workspace sleeps and a forgotten one is archived: one case for each reason not to."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.ttl import (
    Activity,
    Transition,
    archives_now,
    is_mass_idle,
    next_transition,
    sleeps_now,
)

from .builders import NOW, minutes, seconds, workspace

D, S = DesiredState, ObservedStatus
IDLE = workspace(desired_state=D.RUNNING, observed_status=S.RUNNING, last_access_at=NOW - minutes(6))
FORGOTTEN = workspace(
    desired_state=D.STANDBY, observed_status=S.STANDBY, last_access_at=NOW - timedelta(days=1, seconds=1)
)
QUIET = Activity()
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
        assert sleeps_now(IDLE, activity=QUIET, now=NOW)

    @pytest.mark.parametrize("changed", STAYS_AWAKE.values(), ids=STAYS_AWAKE)
    def test_it_stays_awake(self, changed: dict[str, Any]) -> None:
        assert not sleeps_now(replace(IDLE, **changed), activity=QUIET, now=NOW)

    @pytest.mark.parametrize(
        "activity",
        [Activity(connections=1), Activity(idle_timer=seconds(1)), Activity(idle_timer=timedelta(0))],
        ids=["connected", "timer", "timer-about-to-expire"],
    )
    def test_it_stays_awake_while_in_use(self, activity: Activity) -> None:
        assert not sleeps_now(IDLE, activity=activity, now=NOW)

    @pytest.mark.parametrize("column", ["awake_until", "active_until"])
    def test_a_promise_that_is_over_holds_nothing(self, column: str) -> None:
        over: dict[str, Any] = {column: NOW}
        assert sleeps_now(replace(IDLE, **over), activity=QUIET, now=NOW)


class TestArchive:
    def test_a_forgotten_workspace_is_archived(self) -> None:
        assert archives_now(FORGOTTEN, now=NOW)

    @pytest.mark.parametrize("changed", STAYS_STANDBY.values(), ids=STAYS_STANDBY)
    def test_it_stays(self, changed: dict[str, Any]) -> None:
        assert not archives_now(replace(FORGOTTEN, **changed), now=NOW)

    def test_a_keep_awake_that_is_over_holds_nothing(self) -> None:
        assert archives_now(replace(FORGOTTEN, awake_until=NOW), now=NOW)


class TestWhatPeopleAreTold:
    def test_sleep_comes_when_the_timer_ends(self) -> None:
        told = next_transition(IDLE, activity=Activity(idle_timer=minutes(4)), now=NOW)
        assert told == Transition(D.STANDBY, NOW + minutes(4), "idle for 5 min")

    def test_what_is_due_is_due_now(self) -> None:
        assert next_transition(IDLE, activity=QUIET, now=NOW) == Transition(D.STANDBY, NOW, "idle for 5 min")

    @pytest.mark.parametrize("column", ["awake_until", "active_until"])
    def test_a_promise_moves_it(self, column: str) -> None:
        promise: dict[str, Any] = {column: NOW + minutes(30)}
        told = next_transition(replace(IDLE, **promise), activity=QUIET, now=NOW)
        assert told is not None
        assert told.at == NOW + minutes(30)

    def test_one_that_just_came_up_has_its_whole_idle_period(self) -> None:
        told = next_transition(replace(IDLE, last_access_at=NOW), activity=QUIET, now=NOW)
        assert told is not None
        assert told.at == NOW + minutes(5)

    @pytest.mark.parametrize("activity", [None, Activity(connections=2)], ids=["unknown", "connected"])
    def test_no_promise_while_in_use_or_unknown(self, activity: Activity | None) -> None:
        assert next_transition(IDLE, activity=activity, now=NOW) is None

    def test_the_archive_comes_after_its_ttl(self) -> None:
        view = replace(FORGOTTEN, last_access_at=NOW - timedelta(hours=1))
        told = next_transition(view, activity=QUIET, now=NOW)
        assert told == Transition(D.PENDING, NOW + timedelta(hours=23), "not used for 1 d")

    def test_a_forgotten_one_is_due_now_unless_kept_awake(self) -> None:
        told = next_transition(FORGOTTEN, activity=None, now=NOW)
        assert told is not None
        assert told.at == NOW
        told = next_transition(replace(FORGOTTEN, awake_until=SOON), activity=None, now=NOW)
        assert told is not None
        assert told.at == SOON

    @pytest.mark.parametrize("ttl", ["standby_ttl_seconds", "archive_ttl_seconds"])
    def test_ttl_0_is_never(self, ttl: str) -> None:
        view = IDLE if ttl == "standby_ttl_seconds" else FORGOTTEN
        never: dict[str, Any] = {ttl: 0}
        assert next_transition(replace(view, **never), activity=QUIET, now=NOW) is None

    @pytest.mark.parametrize("held", [NOW + minutes(1), NOW + minutes(90)])
    def test_the_promise_is_kept(self, held: Any) -> None:
        """At the moment that was told, and not before, the TTL manager agrees."""
        view = replace(IDLE, awake_until=held, last_access_at=NOW)
        told = next_transition(view, activity=QUIET, now=NOW)
        assert told is not None
        assert not sleeps_now(view, activity=QUIET, now=told.at - seconds(1))
        assert sleeps_now(view, activity=QUIET, now=told.at + seconds(1))


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
