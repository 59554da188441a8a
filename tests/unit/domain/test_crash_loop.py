"""A container that leaves RUNNING by itself within a minute is a failed start, not a fresh one."""

from dataclasses import replace

import pytest

from codehub.domain import home
from codehub.domain.endings import Ending
from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.plan import Claim, Crashed, Decision, Skip, Wait, crash_error, plan
from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView

from .builders import NOW, POLICY, in_flight, minutes, seconds, workspace


def fallen(*, after: float, crashes: int = 0, desired: DesiredState = DesiredState.RUNNING) -> WorkspaceView:
    """It got to RUNNING, and ``after`` seconds later a look finds only the volume."""
    ran_at = NOW - minutes(10)
    return workspace(
        desired_state=desired,
        observed_at=ran_at + seconds(after),
        home=HomeContext(volume=True, ran_at=ran_at, crashes=crashes),
    )


def decide(view: WorkspaceView) -> Decision:
    return plan(view, now=NOW, policy=POLICY)


def error_of(view: WorkspaceView, *, log_tail: str) -> ErrorInfo:
    crash = decide(view)
    assert isinstance(crash, Crashed)
    return crash_error(crash, Ending(exit_code=1), log_tail=log_tail, now=NOW, policy=POLICY)


@pytest.mark.parametrize(
    ("after", "counted"), [(0, True), (5, True), (60, True), (60.1, False), (86400, False)]
)
def test_within_a_minute_is_a_failed_start(after: float, counted: bool) -> None:
    assert decide(fallen(after=after)) == Crashed(crashes=1, ran_for=seconds(after), soon=counted)


def test_crashes_are_counted_across_starts() -> None:
    assert decide(fallen(after=5, crashes=2)) == Crashed(crashes=3, ran_for=seconds(5))


def test_a_late_crash_is_the_first_of_its_row() -> None:
    assert decide(fallen(after=600, crashes=2)) == Crashed(crashes=1, ran_for=seconds(600), soon=False)


def test_after_a_late_crash_it_is_started_at_once() -> None:
    crashed = fallen(after=600)
    crashed = replace(crashed, home=home.at_crash(crashed.home, crashes=1), last_retry_at=None)
    assert decide(crashed) == Claim(Operation.STARTING)


@pytest.mark.parametrize(
    ("desired", "decision"),
    [(DesiredState.STANDBY, Skip("converged")), (DesiredState.PENDING, Claim(Operation.ARCHIVING))],
)
def test_a_container_nobody_wants_may_be_gone(desired: DesiredState, decision: Decision) -> None:
    assert decide(fallen(after=5, desired=desired)) == decision


def test_after_a_crash_the_next_start_waits_its_turn() -> None:
    crashed = replace(fallen(after=5), last_retry_at=NOW)
    crashed = replace(crashed, home=home.at_crash(crashed.home, crashes=1))
    assert isinstance(plan(crashed, now=NOW + seconds(20), policy=POLICY), Wait)
    assert plan(crashed, now=NOW + seconds(40), policy=POLICY) == Claim(Operation.STARTING)


def test_the_fourth_crash_in_a_row_is_terminal_and_shows_the_log() -> None:
    view = fallen(after=5)
    for crash in (1, 2, 3):
        error = error_of(view, log_tail="ImportError")
        assert (error.reason, error.is_terminal, error.error_count) == (Reason.ACTION_FAILED, False, crash)
        assert (error.operation, error.context["log"]) == (Operation.STARTING, "ImportError")
        view = replace(view, home=replace(view.home, crashes=crash))
    error = error_of(view, log_tail="ImportError")
    assert (error.reason, error.is_terminal, error.error_count) == (Reason.RETRY_EXCEEDED, True, 4)
    assert error.context["log"] == "ImportError"


class TestWhatIsForgiven:
    def test_a_start_that_follows_a_crash_remembers_it(self) -> None:
        crashed = workspace(home=HomeContext(crashes=2))
        assert home.at_claim(crashed, Operation.STARTING).crashes == 2

    def test_one_that_ran_longer_than_the_window_starts_with_a_clean_slate(self) -> None:
        view = fallen(after=3600, crashes=2)
        assert home.at_claim(view, Operation.STARTING).crashes == 0

    def test_a_stop_somebody_asked_for_is_no_crash(self) -> None:
        running = replace(fallen(after=5, crashes=2), observed_status=ObservedStatus.RUNNING)
        stopped = home.at_claim(running, Operation.STOPPING)
        assert (stopped.ran_at, stopped.crashes) == (None, 0)

    def test_a_completed_start_remembers_when_it_got_there(self) -> None:
        view = in_flight(Operation.STARTING, home=HomeContext(crashes=1))
        after = home.at_completion(view, now=NOW)
        assert (after.ran_at, after.crashes) == (NOW, 1)

    def test_a_person_forgives(self) -> None:
        after = home.at_recovery(fallen(after=5, crashes=3))
        assert (after.ran_at, after.crashes, after.volume) == (None, 0, True)
