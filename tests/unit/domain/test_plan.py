"""The plan with no operation in flight: the whole table, every combination of its axes.

``expected`` states the table of the specification in its own words: rows from top to bottom, the first
that matches wins. It asks the named axes only and knows nothing of how ``plan`` is written.
"""

from dataclasses import dataclass
from itertools import product

import pytest

from codehub.domain.plan import Claim, Decision, Halt, Mark, Skip, plan
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import HomeContext

from .builders import KEY, NOW, POLICY, an_error, minutes, workspace

D, S, O = DesiredState, ObservedStatus, Operation  # noqa: E741


@dataclass(frozen=True)
class Case:
    deleted: bool
    observed: ObservedStatus
    health: str  # ok, error, or a terminal error_info the Observer has not turned into health yet
    desired: DesiredState
    archive: str  # none, trusted (the volume came from it), untrusted (it did not)
    mark: bool  # home_ctx.volume: a home was completed here

    def __str__(self) -> str:
        deleted = "deleted-" if self.deleted else ""
        mark = "-marked" if self.mark else ""
        return f"{deleted}{self.observed}-{self.health}-want-{self.desired}-archive-{self.archive}{mark}"


CASES = [
    Case(*axes)
    for axes in product(
        (False, True), S, ("ok", "error", "terminal"), D, ("none", "trusted", "untrusted"), (False, True)
    )
]


Outcome = Operation | type[Skip] | type[Halt] | type[Mark]


def expected(case: Case) -> Outcome:
    wants_volume = case.desired in (D.STANDBY, D.RUNNING)
    table: list[tuple[bool, Outcome]] = [
        (case.deleted and case.observed is not S.DELETED, O.DELETING),
        (case.deleted, Skip),
        (case.health != "ok", Skip),
        (case.observed is S.DELETED, Skip),
        (case.observed is S.PENDING and case.mark, Halt),
        (case.observed is S.PENDING and wants_volume and case.archive == "none", O.PROVISIONING),
        (case.observed is S.PENDING and wants_volume, O.RESTORING),
        (case.observed is S.STANDBY and case.archive == "untrusted" and wants_volume, O.RESTORING),
        (case.observed is S.STANDBY and case.archive == "untrusted", O.ARCHIVING),
        (case.observed in (S.STANDBY, S.RUNNING) and case.archive != "untrusted" and not case.mark, Mark),
        (case.observed is S.STANDBY and case.desired is D.RUNNING, O.STARTING),
        (case.observed is S.STANDBY and case.desired is D.PENDING, O.ARCHIVING),
        (case.observed is S.RUNNING and case.desired is not D.RUNNING, O.STOPPING),
        (True, Skip),  # what is left is what is wanted
    ]
    return next(outcome for applies, outcome in table if applies)


def decide(case: Case) -> Decision:
    marker = {"none": None, "trusted": KEY, "untrusted": "another"}[case.archive]
    view = workspace(
        deleted_at=NOW - minutes(1) if case.deleted else None,
        observed_status=case.observed,
        health_status=HealthStatus.ERROR if case.health == "error" else HealthStatus.OK,
        error_info=an_error(is_terminal=True) if case.health == "terminal" else None,
        desired_state=case.desired,
        archive_key=None if case.archive == "none" else KEY,
        home=HomeContext(restore_marker=marker, volume=case.mark),
    )
    return plan(view, now=NOW, policy=POLICY)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_table(case: Case) -> None:
    decision, outcome = decide(case), expected(case)
    if isinstance(outcome, Operation):
        assert decision == Claim(outcome)
    else:
        assert isinstance(decision, outcome)


def test_a_vanished_volume_halts_with_a_terminal_mismatch_that_says_what_was_expected() -> None:
    view = workspace(observed_status=S.PENDING, desired_state=D.PENDING, home=HomeContext(volume=True))

    decision = plan(view, now=NOW, policy=POLICY)

    assert isinstance(decision, Halt)
    error = decision.error
    assert (error.reason, error.is_terminal, error.occurred_at) == ("Mismatch", True, NOW)
    assert error.context["expected"] == "volume_exists=True"
    assert error.context["actual"] == "False"
    assert error.context["volume"] == f"ws-{view.id}-home"


def test_a_new_volume_without_any_archive_is_trusted_whatever_the_marker_says() -> None:
    view = workspace(desired_state=D.RUNNING, archive_key=None, home=HomeContext("old", volume=True))
    assert plan(view, now=NOW, policy=POLICY) == Claim(O.STARTING)


def test_an_error_that_is_being_retried_stops_nothing() -> None:
    view = workspace(desired_state=D.RUNNING, error_info=an_error(is_terminal=False))
    assert plan(view, now=NOW, policy=POLICY) == Claim(O.STARTING)


def test_a_step_goes_to_a_neighbour_only() -> None:
    """RUNNING → PENDING is STOPPING, then ARCHIVING."""
    running = workspace(observed_status=S.RUNNING, desired_state=D.PENDING)
    stopped = workspace(observed_status=S.STANDBY, desired_state=D.PENDING)
    assert plan(running, now=NOW, policy=POLICY) == Claim(O.STOPPING)
    assert plan(stopped, now=NOW, policy=POLICY) == Claim(O.ARCHIVING)


@pytest.mark.parametrize("operation", [operation for operation in O if operation is not O.NONE])
@pytest.mark.parametrize("deleted", [False, True], ids=["live", "deleted"])
@pytest.mark.parametrize("health", HealthStatus)
def test_in_flight_is_judged_before_everything_else(
    operation: Operation, deleted: bool, health: HealthStatus
) -> None:
    """Never interrupted by a newer intent, not even by a deletion: it finishes, fails or times out."""
    view = workspace(
        operation=operation,
        op_started_at=NOW,
        deleted_at=NOW if deleted else None,
        health_status=health,
    )
    assert not isinstance(plan(view, now=NOW, policy=POLICY), Claim | Halt | Skip)
