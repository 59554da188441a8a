"""How long work without a person counts as use, and that doubt counts as work."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from codehub.domain.busy import Busy, BusySign, BusyWith, extend_busy
from codehub.domain.states import DesiredState, ObservedStatus
from codehub.domain.ttl import (
    Activity,
    Awake,
    AwakeBecause,
    NextChange,
    UsePolicy,
    next_change,
    sleeps_now,
    used_at_latest,
    why_awake,
)

from .builders import NOW, minutes, seconds, workspace

KERNEL = BusySign(BusyWith.KERNEL)
LIMIT = timedelta(hours=12)
POLICY = UsePolicy(untouched_limit=timedelta(hours=8), busy_limit=LIMIT)
IDLE = workspace(
    desired_state=DesiredState.RUNNING,
    observed_status=ObservedStatus.RUNNING,
    last_access_at=NOW - timedelta(days=2),
)
QUIET = Activity(last_seen_at=NOW - timedelta(hours=3))


def extended(before: Busy | None, *, used_at: datetime, now: datetime = NOW, limit: timedelta = LIMIT) -> Any:
    return extend_busy(before, KERNEL, used_at=used_at, now=now, lease=minutes(3), limit=limit)


def test_a_sign_holds_until_the_next_sample() -> None:
    busy = extended(None, used_at=NOW - timedelta(hours=1))
    assert busy == Busy(KERNEL, since=NOW, until=NOW + minutes(3))
    view = replace(IDLE, busy=busy)
    assert not sleeps_now(view, activity=QUIET, now=NOW + minutes(2), policy=POLICY)
    assert sleeps_now(view, activity=QUIET, now=NOW + minutes(3), policy=POLICY)


def test_signs_in_a_row_count_for_the_limit_and_no_longer() -> None:
    busy: Busy | None = None
    now, used_at = NOW, NOW - minutes(5)
    while (extension := extended(busy, used_at=used_at, now=now)) is not None:
        busy, now = extension, now + minutes(2)
    assert busy is not None
    assert busy.since == NOW
    assert busy.until == NOW + LIMIT <= now
    # A gap does not begin it anew: only a person does.
    assert extended(busy, used_at=used_at, now=now + timedelta(hours=5)) is None
    anew = extended(busy, used_at=NOW + timedelta(hours=13), now=NOW + timedelta(hours=14))
    assert anew == Busy(KERNEL, NOW + timedelta(hours=14), NOW + timedelta(hours=14) + minutes(3))


def test_a_limit_of_zero_counts_nothing() -> None:
    assert extended(None, used_at=NOW, limit=timedelta(0)) is None


@pytest.mark.parametrize(
    ("activity", "used_ago"),
    [
        (QUIET, timedelta(hours=3)),
        # Redis lost its data an hour ago: somebody may have used it until then.
        (Activity(memory_age=timedelta(hours=1)), timedelta(hours=1)),
        # The tab is open, and nobody touched it: renewals of its lease are no use.
        (
            Activity(connections=1, last_seen_at=NOW, input_age=timedelta(hours=9)),
            timedelta(hours=9),
        ),
        (Activity(connections=1, last_seen_at=NOW, input_age=timedelta(hours=7)), timedelta(0)),
    ],
)
def test_the_limit_counts_from_the_last_use(activity: Activity, used_ago: timedelta) -> None:
    assert used_at_latest(IDLE, activity, now=NOW, policy=POLICY) == NOW - used_ago


def test_people_are_told_what_it_does_and_until_when() -> None:
    busy = Busy(BusySign(BusyWith.JOB, "make"), since=NOW - timedelta(hours=2), until=NOW + minutes(2))
    view = replace(IDLE, busy=busy)
    ends = NOW + timedelta(hours=10)
    assert why_awake(view, activity=QUIET, now=NOW, policy=POLICY) == Awake(
        AwakeBecause.BUSY, NOW - timedelta(hours=2), busy.sign, until=ends
    )
    assert next_change(view, activity=QUIET, now=NOW, policy=POLICY) == NextChange(
        DesiredState.STANDBY, ends, "busy for 12 h without anybody"
    )
    # Who has it open is told that; the sample is of no matter then.
    tab = Activity(connections=1, last_seen_at=NOW, input_age=seconds(5))
    told = why_awake(view, activity=tab, now=NOW, policy=POLICY)
    assert told is not None
    assert told.because is AwakeBecause.OPEN


@pytest.mark.parametrize("what", BusyWith)
def test_it_comes_back_from_the_database(what: BusyWith) -> None:
    busy = Busy(BusySign(what, "make"), NOW, NOW + minutes(3))
    assert Busy.from_json(busy.as_json()) == busy


def test_a_sign_of_a_later_release_is_a_sign() -> None:
    stored = Busy(KERNEL, NOW, NOW + minutes(3)).as_json() | {"what": "dreaming"}
    assert Busy.from_json(stored).sign.what is BusyWith.UNKNOWN
