"""Archiving that failed: its owner can still reach the home, and the next try comes late or when asked."""

from typing import Any

import pytest

from codehub.domain import home
from codehub.domain.errors import Reason
from codehub.domain.plan import Claim, Decision, Wait, plan
from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.status import Status, status_of
from codehub.domain.workspace import HomeContext, WorkspaceView

from .builders import KEY, NOW, POLICY, an_error, in_flight, minutes, workspace

D, S, O = DesiredState, ObservedStatus, Operation  # noqa: E741


def given_up(**fields: Any) -> WorkspaceView:
    """Asleep; archiving was given up and is tried again in an hour."""
    kept = HomeContext(volume=True, archive_failures=1, archive_retry_at=NOW + minutes(60))
    told = an_error(is_terminal=False, operation=O.ARCHIVING)
    return workspace(**({"desired_state": D.PENDING, "home": kept, "error_info": told} | fields))


def decide(ws: WorkspaceView, *, after_minutes: float = 0) -> Decision:
    return plan(ws, now=NOW + minutes(after_minutes), policy=POLICY)


def test_it_waits_for_its_time_and_then_tries_again() -> None:
    assert isinstance(decide(given_up(), after_minutes=59), Wait)
    assert decide(given_up(), after_minutes=60) == Claim(O.ARCHIVING)


def test_a_start_needs_nobody() -> None:
    assert decide(given_up(desired_state=D.RUNNING)) == Claim(O.STARTING)
    assert status_of(given_up()) is Status.STANDBY


def test_a_volume_that_could_not_be_removed_waits_too_and_a_start_restores() -> None:
    stuck = HomeContext(archive_failures=1, archive_retry_at=NOW + minutes(60))
    assert isinstance(decide(given_up(archive_key=KEY, home=stuck)), Wait)
    assert decide(given_up(archive_key=KEY, home=stuck, desired_state=D.RUNNING)) == Claim(O.RESTORING)


def test_whoever_recovers_tries_now() -> None:
    lifted = given_up(error_info=None, home=home.at_recovery(given_up()))
    assert decide(lifted) == Claim(O.ARCHIVING)


def test_failures_count_until_the_home_was_used_or_archived() -> None:
    again = home.at_archiving_given_up(given_up().home, retry_at=NOW)
    assert (again.archive_failures, again.archive_retry_at) == (2, NOW)
    assert home.at_claim(given_up(), O.ARCHIVING).archive_failures == 1
    assert home.at_claim(given_up(), O.STARTING).archive_failures == 0
    assert home.at_archive_commit(again, archive_key=KEY, sha256=None, sizes={}).archive_failures == 0


def test_while_it_is_tried_again_it_is_not_given_up() -> None:
    trying = in_flight(O.ARCHIVING, home=home.at_claim(given_up(), O.ARCHIVING))
    assert given_up().archiving_given_up
    assert not trying.archiving_given_up


def test_a_deleted_workspace_waits_for_no_next_try() -> None:
    deleting = home.at_claim(given_up(deleted_at=NOW), O.DELETING)
    assert not given_up(
        home=home.at_completion(in_flight(O.DELETING, home=deleting), now=NOW)
    ).archiving_given_up


@pytest.mark.parametrize("operation", O)
@pytest.mark.parametrize("reason", Reason)
def test_owners_lift_what_stopped_an_archiving_and_nothing_else(operation: Operation, reason: Reason) -> None:
    told = an_error(is_terminal=True, operation=operation, reason=reason)
    theirs = operation is O.ARCHIVING and reason not in (Reason.DATA_LOST, Reason.MISMATCH)
    assert workspace(error_info=told).owner_may_lift_error is theirs
