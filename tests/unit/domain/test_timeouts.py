"""In flight: adoption, retries, timeouts and what excuses them."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from codehub.domain.plan import Act, ActKind, Attempt, Decision, Expire, Fail, Wait, plan
from codehub.domain.states import STORAGE_OPERATIONS, Operation
from codehub.domain.workspace import WorkspaceView

from .builders import NOW, POLICY, in_flight, minutes, seconds

O = Operation  # noqa: E741
OPERATIONS: list[Operation] = [operation for operation in O if operation is not O.NONE]
MORTAL: list[Operation] = [operation for operation in OPERATIONS if operation is not O.DELETING]
TIMEOUT: dict[Operation, timedelta] = {
    operation: minutes(30 if operation in STORAGE_OPERATIONS else 5) for operation in OPERATIONS
}
A_MOMENT = timedelta(milliseconds=1)


def judge(view: WorkspaceView, attempt: Attempt | None = None, now: datetime = NOW) -> Decision:
    return plan(view, now=now, policy=POLICY, attempt=attempt or Attempt())


def claimed(operation: Operation, ago: timedelta, **fields: Any) -> WorkspaceView:
    return in_flight(operation, op_started_at=NOW - ago, **fields)


def test_the_timeouts_are_the_specified_ones() -> None:
    assert POLICY.timeouts == TIMEOUT


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_leader_without_an_action_of_its_own_adopts_at_once(operation: Operation) -> None:
    assert judge(claimed(operation, seconds(1))) == Act(ActKind.ADOPT)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_successor_tries_itself_before_it_judges_the_timeout(operation: Operation) -> None:
    """After a long outage everything is past its timeout, and most of it could just be finished."""
    assert judge(claimed(operation, timedelta(days=2))) == Act(ActKind.ADOPT)


class TestWhileActing:
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_an_action_within_its_timeout_is_left_alone(self, operation: Operation) -> None:
        attempt = Attempt(acting=True, started_at=NOW - TIMEOUT[operation])
        assert judge(claimed(operation, timedelta(days=1)), attempt) == Wait("acting")

    @pytest.mark.parametrize("operation", MORTAL)
    def test_an_action_past_its_timeout_expires(self, operation: Operation) -> None:
        attempt = Attempt(acting=True, started_at=NOW - TIMEOUT[operation] - A_MOMENT)

        decision = judge(claimed(operation, TIMEOUT[operation] * 2), attempt)

        assert isinstance(decision, Expire)
        assert decision.error.reason == "Timeout"
        assert decision.error.is_terminal
        assert decision.error.context == {
            "operation": operation.value,
            "elapsed_seconds": TIMEOUT[operation].total_seconds(),
        }

    def test_deleting_past_its_timeout_is_a_failed_execution_never_terminal(self) -> None:
        decision = judge(claimed(O.DELETING, minutes(6)), Attempt(acting=True, started_at=NOW - minutes(6)))
        assert isinstance(decision, Fail)
        assert decision.failure.reason == "Timeout"

    @pytest.mark.parametrize("operation", sorted(STORAGE_OPERATIONS))
    def test_a_storage_job_is_measured_from_its_last_progress(self, operation: Operation) -> None:
        started = NOW - timedelta(hours=9)
        moving = Attempt(acting=True, started_at=started, progress_at=NOW - minutes(30))
        stuck = Attempt(acting=True, started_at=started, progress_at=NOW - minutes(30) - A_MOMENT)
        view = claimed(operation, timedelta(hours=9))
        assert judge(view, moving) == Wait("acting")
        assert isinstance(judge(view, stuck), Expire)

    @pytest.mark.parametrize("operation", MORTAL)
    def test_waiting_for_an_engine_that_was_away_uses_up_no_timeout(self, operation: Operation) -> None:
        attempt = Attempt(
            acting=True, started_at=NOW - TIMEOUT[operation] * 5, timeout_counts_from=NOW - TIMEOUT[operation]
        )
        assert judge(claimed(operation, TIMEOUT[operation] * 6), attempt) == Wait("acting")


class TestBetweenAttempts:
    ENDED_AT = NOW - minutes(1)

    def judged(
        self, operation: Operation, *, age: timedelta, seen_at: datetime | None, **attempt: Any
    ) -> Decision:
        own = Attempt(started_at=self.ENDED_AT - seconds(1), ended_at=self.ENDED_AT, **attempt)
        return judge(claimed(operation, age, observed_at=seen_at), own)

    @pytest.mark.parametrize("operation", MORTAL)
    def test_over_the_timeout_after_the_own_attempt_and_a_later_look_expires(
        self, operation: Operation
    ) -> None:
        decision = self.judged(operation, age=TIMEOUT[operation] + A_MOMENT, seen_at=NOW)
        assert isinstance(decision, Expire)

    @pytest.mark.parametrize("operation", OPERATIONS)
    @pytest.mark.parametrize(
        "seen_at", [None, ENDED_AT - A_MOMENT, ENDED_AT], ids=["never", "before", "same"]
    )
    def test_without_a_later_look_it_is_tried_again(
        self, operation: Operation, seen_at: datetime | None
    ) -> None:
        assert isinstance(self.judged(operation, age=TIMEOUT[operation] * 2, seen_at=seen_at), Act)

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_exactly_at_the_timeout_is_still_in_time(self, operation: Operation) -> None:
        assert isinstance(self.judged(operation, age=TIMEOUT[operation], seen_at=NOW), Act)

    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_an_excuse_moves_the_timeout(self, operation: Operation) -> None:
        decision = self.judged(
            operation, age=TIMEOUT[operation] * 9, seen_at=NOW, timeout_counts_from=NOW - TIMEOUT[operation]
        )
        assert isinstance(decision, Act)

    @pytest.mark.parametrize("operation", sorted(STORAGE_OPERATIONS))
    def test_progress_moves_the_timeout(self, operation: Operation) -> None:
        decision = self.judged(operation, age=timedelta(hours=9), seen_at=NOW, progress_at=NOW - minutes(2))
        assert isinstance(decision, Act)

    def test_deleting_past_its_timeout_is_still_tried_again(self) -> None:
        """Only another attempt can end it: counting failures for ever without trying ends nothing."""
        assert isinstance(self.judged(O.DELETING, age=timedelta(days=1), seen_at=NOW), Act)

    def test_deleting_past_its_timeout_still_backs_off(self) -> None:
        view = claimed(
            O.DELETING, timedelta(days=1), error_count=9, last_retry_at=NOW - seconds(1), observed_at=NOW
        )
        own = Attempt(started_at=NOW - seconds(3), ended_at=NOW - seconds(2))
        assert isinstance(judge(view, own), Wait)


class TestRetries:
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_a_failed_execution_is_repeated_after_the_pause(self, operation: Operation) -> None:
        view = claimed(operation, minutes(1), error_count=1, last_retry_at=NOW)
        earliest, latest = NOW + seconds(30) * 0.7, NOW + seconds(30) * 1.3
        assert isinstance(judge(view, now=earliest - A_MOMENT), Wait)
        assert judge(view, now=latest) == Act(ActKind.RETRY)

    def test_a_successor_keeps_to_the_pause_too(self) -> None:
        view = claimed(O.STARTING, minutes(1), error_count=2, last_retry_at=NOW - seconds(1))
        assert isinstance(judge(view), Wait)
