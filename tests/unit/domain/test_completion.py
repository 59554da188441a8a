"""Completion: operation × observed × look × home × action, the whole table.

An operation is complete when its own action has ended and a look begun after that shows the target;
RESTORING and ARCHIVING also need what makes the home safe.
"""

from dataclasses import dataclass
from itertools import product

import pytest

from codehub.domain import completion
from codehub.domain.plan import Act, Complete, Fail, Wait, plan
from codehub.domain.states import ObservedStatus, Operation
from codehub.domain.workspace import HomeContext, WorkspaceView

from .builders import KEY, NOW, POLICY, in_flight, seconds

S, O = ObservedStatus, Operation  # noqa: E741
OPERATIONS: list[Operation] = [operation for operation in O if operation is not O.NONE]
ACTED_AT = NOW - seconds(5)
LOOKS = {
    "never": None,
    "before": ACTED_AT - seconds(1),
    "same-instant": ACTED_AT,  # begun no later than the action ended: it may have seen the old state
    "after": ACTED_AT + seconds(1),
}
HOMES = {  # each a pair: the archive key and the restore marker
    "no-archive": (None, None),
    "marker-is-archive": (KEY, KEY),
    "marker-cleared": (KEY, None),
    "marker-of-older": (KEY, "older"),
}


@dataclass(frozen=True)
class Case:
    operation: Operation
    observed: ObservedStatus
    look: str
    home: str
    acted: bool

    def __str__(self) -> str:
        acted = "acted" if self.acted else "unacted"
        return f"{self.operation}-{acted}-{self.observed}-{self.look}-{self.home}"


CASES = [Case(*axes) for axes in product(OPERATIONS, S, LOOKS, HOMES, (False, True))]


def view_of(case: Case) -> WorkspaceView:
    key, marker = HOMES[case.home]
    return in_flight(
        case.operation,
        observed_status=case.observed,
        observed_at=LOOKS[case.look],
        op_acted_at=ACTED_AT if case.acted else None,
        archive_key=key,
        home=HomeContext(restore_marker=marker),
    )


def expected(case: Case) -> bool:
    if not case.acted or case.look != "after":
        return False
    if case.observed is S.DELETED:
        return True
    restored = case.home == "marker-is-archive"
    archived = case.home in ("marker-cleared", "marker-of-older")  # the archive is the home now
    return {
        O.PROVISIONING: case.observed is S.STANDBY,
        O.RESTORING: case.observed is S.STANDBY and restored,
        O.STARTING: case.observed is S.RUNNING,
        O.STOPPING: case.observed is S.STANDBY,
        O.ARCHIVING: case.observed is S.PENDING and archived,
        O.DELETING: False,  # only DELETED will do
    }[case.operation]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_table(case: Case) -> None:
    view = view_of(case)
    assert completion.is_complete(view) is expected(case)
    decision = plan(view, now=NOW, policy=POLICY)
    assert isinstance(decision, Complete) is expected(case)
    if not case.acted:
        assert isinstance(decision, Act)
    elif not expected(case):
        assert isinstance(decision, Wait)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_effect_that_does_not_show_for_ten_seconds_is_a_failed_execution(operation: Operation) -> None:
    """Measured from the end of the action to the begin of the look: how late the plan is does not count."""

    def judged(look_after: float) -> object:
        view = in_flight(
            operation,
            op_acted_at=ACTED_AT,
            observed_at=ACTED_AT + seconds(look_after),
            observed_status=S.STANDBY if operation in (O.STARTING, O.ARCHIVING, O.DELETING) else S.PENDING,
            op_started_at=ACTED_AT - seconds(1),
        )
        return plan(view, now=NOW + seconds(3600), policy=POLICY)

    assert isinstance(judged(9.9), Wait)
    failed = judged(10)
    assert isinstance(failed, Fail)
    assert failed.failure.reason == "Mismatch"
    assert failed.failure.context["expected"] == f"observed_status={completion.TARGET[operation]}"


def test_every_operation_has_a_target() -> None:
    assert set(completion.TARGET) == set(OPERATIONS)
