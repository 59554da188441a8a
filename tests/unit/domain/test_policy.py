"""What one failed execution means: per reason, per code, per count; and how long to pause."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import REASON_OF, EffectError, FailureCode, Reason
from codehub.domain.policy import (
    WAITED_LONG_ENOUGH,
    Drop,
    ErrorPolicy,
    GiveUp,
    Release,
    Retry,
    after_failure,
    retry_at,
    timed_out,
)
from codehub.domain.states import Operation
from codehub.domain.workspace import HomeContext

from .builders import NOW, POLICY, in_flight, minutes, seconds

O, F = Operation, FailureCode  # noqa: E741
MORTAL: list[Operation] = [operation for operation in O if operation not in (O.NONE, O.DELETING)]
AT_ONCE = {
    F.ARCHIVE_NOT_FOUND,
    F.CHECKSUM_MISMATCH,
    F.ARCHIVE_MISMATCH,
    F.ARCHIVE_UNEXPECTED,
    F.VOLUME_USED_ELSEWHERE,
    F.NAME_TAKEN,
}
RETRIED = [code for code in F if code not in AT_ONCE | WAITED_LONG_ENOUGH | {F.STALE_TOKEN}]


def failed(code: FailureCode) -> EffectError:
    return EffectError(code, "it went wrong", detail="words")


def test_the_policy_is_the_specified_one() -> None:
    assert (POLICY.max_retries, POLICY.retry_backoff) == (3, seconds(30))
    assert POLICY.deleting_backoff_max == minutes(10)
    assert (POLICY.mismatch_after, POLICY.crash_window) == (seconds(10), seconds(60))
    assert POLICY.observer_stale_after == seconds(30)


@pytest.mark.parametrize("operation", [each for each in MORTAL if each is not O.ARCHIVING])
@pytest.mark.parametrize("code", RETRIED)
def test_three_retries_then_the_fourth_failure_is_terminal(code: FailureCode, operation: Operation) -> None:
    for earlier in range(3):
        view = in_flight(operation, error_count=earlier)
        outcome = after_failure(view, failed(code), now=NOW, policy=POLICY)
        assert isinstance(outcome, Retry)
        assert (outcome.error.reason, outcome.error.is_terminal) == (REASON_OF[code], False)
        assert (outcome.error.error_count, outcome.error.operation) == (earlier + 1, operation)

    outcome = after_failure(in_flight(operation, error_count=3), failed(code), now=NOW, policy=POLICY)

    assert isinstance(outcome, GiveUp)
    assert (outcome.error.reason, outcome.error.is_terminal) == (Reason.RETRY_EXCEEDED, True)
    assert outcome.error.error_count == 4
    assert outcome.error.context["max_retries"] == 3
    assert outcome.error.context["last_error"] == "it went wrong"
    assert outcome.error.context["code"] == code.value


@pytest.mark.parametrize("operation", MORTAL)
@pytest.mark.parametrize("code", sorted(AT_ONCE))
def test_lost_data_is_terminal_at_once(code: FailureCode, operation: Operation) -> None:
    """Trying again brings nothing back, and going on would make the loss the truth."""
    outcome = after_failure(in_flight(operation), failed(code), now=NOW, policy=POLICY)
    assert isinstance(outcome, GiveUp)
    assert (outcome.error.reason, outcome.error.is_terminal) == (REASON_OF[code], True)
    assert outcome.error.context == {"code": code.value, "detail": "words"}


@pytest.mark.parametrize("code", [code for code in F if code is not F.STALE_TOKEN])
@pytest.mark.parametrize("earlier", [0, 3, 4, 1000])
def test_deleting_never_goes_terminal(code: FailureCode, earlier: int) -> None:
    view = in_flight(O.DELETING, error_count=earlier)
    outcome = after_failure(view, failed(code), now=NOW, policy=POLICY)
    assert isinstance(outcome, Retry)
    assert not outcome.error.is_terminal
    assert outcome.error.error_count == earlier + 1
    assert outcome.error.message == "it went wrong"


@pytest.mark.parametrize("operation", [*MORTAL, O.DELETING])
def test_a_newer_actor_means_the_result_is_dropped(operation: Operation) -> None:
    view = in_flight(operation, error_count=3)
    assert after_failure(view, failed(F.STALE_TOKEN), now=NOW, policy=POLICY) == Drop()


def test_a_timeout_is_terminal_and_says_how_long() -> None:
    error = timed_out(in_flight(O.ARCHIVING), elapsed=minutes(30), now=NOW)
    assert (error.reason, error.is_terminal) == (Reason.TIMEOUT, True)
    assert error.context == {"operation": "ARCHIVING", "elapsed_seconds": 1800}


class TestPauses:
    def pause(self, operation: Operation, failures: int, op_id: UUID | None = None) -> timedelta:
        view = in_flight(operation, error_count=failures, last_retry_at=NOW, op_id=op_id or uuid4())
        due = retry_at(view, policy=POLICY)
        assert due is not None
        return due - NOW

    @pytest.mark.parametrize("operation", MORTAL)
    @pytest.mark.parametrize("failures", [1, 2, 3])
    def test_between_retries_thirty_seconds_with_jitter(self, operation: Operation, failures: int) -> None:
        pauses = {self.pause(operation, failures) for _ in range(200)}
        assert seconds(21) <= min(pauses) < max(pauses) <= seconds(39)
        assert len(pauses) > 50, "a thousand workspaces must not come back in the same second"

    @pytest.mark.parametrize(
        ("failures", "around"),
        [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480), (6, 600), (50, 600), (9999, 600)],
    )
    def test_deleting_backs_off_to_ten_minutes(self, failures: int, around: int) -> None:
        assert seconds(around * 0.7) <= self.pause(O.DELETING, failures) <= seconds(around * 1.3)

    def test_every_replica_computes_the_same_pause(self) -> None:
        op_id = uuid4()
        assert self.pause(O.STARTING, 2, op_id) == self.pause(O.STARTING, 2, op_id)
        assert self.pause(O.STARTING, 1, op_id) != self.pause(O.STARTING, 2, op_id)

    def test_nothing_failed_means_no_pause(self) -> None:
        assert retry_at(in_flight(O.STARTING, last_retry_at=NOW), policy=POLICY) is None
        assert retry_at(in_flight(O.STARTING, error_count=1), policy=POLICY) is None

    def test_no_jitter_where_none_is_wanted(self) -> None:
        view = in_flight(O.STARTING, error_count=1, last_retry_at=NOW)
        assert retry_at(view, policy=ErrorPolicy(jitter=0)) == NOW + seconds(30)


@pytest.mark.parametrize("code", [code for code in RETRIED if code is not F.HOME_NOT_ARCHIVABLE])
def test_archiving_is_retried_three_times_and_then_given_up_for_a_while(code: FailureCode) -> None:
    for earlier in range(3):
        view = in_flight(O.ARCHIVING, error_count=earlier)
        assert isinstance(after_failure(view, failed(code), now=NOW, policy=POLICY), Retry)
    outcome = after_failure(in_flight(O.ARCHIVING, error_count=3), failed(code), now=NOW, policy=POLICY)
    assert isinstance(outcome, Release)
    assert (outcome.error.reason, outcome.error.is_terminal) == (REASON_OF[code], False)
    assert "it went wrong" in outcome.error.message
    assert outcome.error.context["next_try_at"] == outcome.retry_at.isoformat()


@pytest.mark.parametrize("code", [F.UNSCHEDULABLE, F.HOME_NODE_UNAVAILABLE])
@pytest.mark.parametrize("operation", MORTAL)
def test_what_has_waited_for_its_whole_limit_is_not_made_to_wait_again(
    operation: Operation, code: FailureCode
) -> None:
    outcome = after_failure(in_flight(operation), failed(code), now=NOW, policy=POLICY)
    assert isinstance(outcome, Release if operation is O.ARCHIVING else GiveUp)
    assert outcome.error.is_terminal is (operation is not O.ARCHIVING)


def test_what_only_the_owner_can_mend_is_given_up_at_once() -> None:
    view = in_flight(O.ARCHIVING)
    outcome = after_failure(view, failed(F.HOME_NOT_ARCHIVABLE), now=NOW, policy=POLICY)
    assert isinstance(outcome, Release)
    assert outcome.error.message == "The home could not be archived and stays as it is. it went wrong"


@pytest.mark.parametrize(("earlier", "hours"), [(0, 1), (1, 2), (2, 4), (4, 16), (5, 24), (1000, 24)])
def test_archiving_backs_off_longer_each_time_and_never_for_good(earlier: int, hours: int) -> None:
    view = in_flight(O.ARCHIVING, home=HomeContext(volume=True, archive_failures=earlier))
    outcome = after_failure(view, failed(F.HOME_NOT_ARCHIVABLE), now=NOW, policy=POLICY)
    assert isinstance(outcome, Release)
    assert outcome.retry_at == NOW + minutes(60 * hours)
