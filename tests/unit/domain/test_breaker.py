"""One failing workspace is its own problem; a failing engine is not."""

from uuid import uuid4

from codehub.domain.breaker import Breaker
from codehub.domain.plan import Attempt, Wait, plan
from codehub.domain.states import Operation

from .builders import NOW, POLICY, in_flight, minutes, seconds

ONE, TWO, THREE = uuid4(), uuid4(), uuid4()


def test_it_begins_closed_with_nothing_to_probe() -> None:
    assert not Breaker().is_open
    assert not Breaker().probe_due(NOW)


def test_three_different_workspaces_in_a_row_open_it() -> None:
    breaker = Breaker().unreachable(ONE, error="a", now=NOW).unreachable(TWO, error="b", now=NOW)
    assert not breaker.is_open
    breaker = breaker.unreachable(THREE, error="c", now=NOW)
    assert breaker.is_open
    assert (breaker.opened_at, breaker.last_error) == (NOW, "c")


def test_one_workspace_alone_proves_nothing() -> None:
    breaker = Breaker()
    for _ in range(10):
        breaker = breaker.unreachable(ONE, error="away", now=NOW)
    assert not breaker.is_open


def test_a_success_between_starts_the_count_over() -> None:
    breaker = Breaker().unreachable(ONE, error="", now=NOW).unreachable(TWO, error="", now=NOW)
    breaker = breaker.succeeded(NOW).unreachable(THREE, error="", now=NOW)
    assert not breaker.is_open


def test_a_failed_probe_opens_it_at_once() -> None:
    breaker = Breaker().probe_failed(error="refused", now=NOW)
    assert breaker.is_open
    assert breaker.last_error == "refused"


def test_it_looks_again_after_five_seconds_then_ever_later_up_to_five_minutes() -> None:
    breaker, now, pauses = Breaker(), NOW, []
    for _ in range(9):
        breaker = breaker.probe_failed(error="away", now=now)
        assert breaker.probe_at is not None
        assert not breaker.probe_due(breaker.probe_at - seconds(0.001))
        assert breaker.probe_due(breaker.probe_at)
        pauses.append((breaker.probe_at - now).total_seconds())
        now = breaker.probe_at
    assert pauses == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    assert breaker.opened_at == NOW, "people see since when it is away"


def test_actions_that_fail_while_it_is_open_do_not_postpone_the_probe() -> None:
    opened = Breaker().probe_failed(error="away", now=NOW)
    later = opened.unreachable(ONE, error="still", now=NOW + seconds(4))
    assert later.probe_at == opened.probe_at
    assert later.opened_at == NOW


def test_a_success_closes_it_and_forgets_the_pause() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker = breaker.probe_failed(error="away", now=NOW)
    closed = breaker.succeeded(NOW + minutes(7))
    assert not closed.is_open
    assert not closed.probe_due(NOW + minutes(60))
    assert closed.closed_at == NOW + minutes(7)
    again = closed.probe_failed(error="away", now=NOW + minutes(8))
    assert again.probe_at == NOW + minutes(8) + seconds(5)


def test_a_closed_breaker_that_succeeds_is_the_same_value() -> None:
    breaker = Breaker()
    assert breaker.succeeded(NOW) is breaker


def test_the_time_an_engine_was_away_is_excused() -> None:
    """Closed one minute ago after an hour: an operation claimed before that is not past its timeout."""
    closed = Breaker().probe_failed(error="away", now=NOW - minutes(60)).succeeded(NOW - minutes(1))
    attempt = Attempt(acting=True, started_at=NOW - minutes(61), timeout_counts_from=closed.closed_at)
    view = in_flight(Operation.STARTING, op_started_at=NOW - minutes(61))
    assert plan(view, now=NOW, policy=POLICY, attempt=attempt) == Wait("acting")
