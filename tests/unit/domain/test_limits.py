"""Who holds a running place: while RUNNING is wanted, or while a container runs that nobody is stopping."""

from itertools import product

import pytest

from codehub.domain.limits import LimitKind, Usage, exceeded, holds_place
from codehub.domain.states import DesiredState, HealthStatus, ObservedStatus, Operation

from .builders import NOW, an_error, workspace

D, S, O = DesiredState, ObservedStatus, Operation  # noqa: E741


@pytest.mark.parametrize(
    ("observed", "operation", "in_error"), list(product(S, O, (False, True))), ids=lambda value: str(value)
)
def test_an_intent_to_run_holds_a_place_unless_it_is_broken_and_at_rest(
    observed: ObservedStatus, operation: Operation, in_error: bool
) -> None:
    view = workspace(
        desired_state=D.RUNNING,
        observed_status=observed,
        operation=operation,
        error_info=an_error(is_terminal=True) if in_error else None,
    )
    broken_at_rest = in_error and operation is O.NONE and observed is not S.RUNNING
    assert holds_place(view) is not broken_at_rest


def test_health_alone_takes_no_place_away() -> None:
    """The Observer may turn it back by itself, and nobody would ask whether there is a place."""
    assert holds_place(workspace(desired_state=D.RUNNING, health_status=HealthStatus.ERROR))


@pytest.mark.parametrize("desired", [D.STANDBY, D.PENDING])
@pytest.mark.parametrize(
    ("operation", "in_error", "holds"),
    [
        (O.NONE, False, False),  # the stop follows within moments
        (O.STOPPING, False, False),
        (O.DELETING, False, False),
        (O.NONE, True, True),  # it failed to stop: no step follows
        (O.STARTING, False, True),  # a start that nobody wants any more still runs on
    ],
)
def test_a_container_still_running(
    desired: DesiredState, operation: Operation, in_error: bool, holds: bool
) -> None:
    view = workspace(
        desired_state=desired,
        observed_status=S.RUNNING,
        operation=operation,
        error_info=an_error(is_terminal=True) if in_error else None,
    )
    assert holds_place(view) is holds


@pytest.mark.parametrize("observed", [S.PENDING, S.STANDBY, S.DELETED])
@pytest.mark.parametrize("operation", O)
def test_without_intent_and_container_there_is_no_place(
    observed: ObservedStatus, operation: Operation
) -> None:
    assert not holds_place(workspace(observed_status=observed, operation=operation))


@pytest.mark.parametrize("operation", [O.NONE, O.DELETING])
def test_a_deleted_workspace_frees_its_place_at_once(operation: Operation) -> None:
    view = workspace(desired_state=D.RUNNING, observed_status=S.RUNNING, operation=operation, deleted_at=NOW)
    assert not holds_place(view)


@pytest.mark.parametrize(
    ("user", "everyone", "limit"),
    [
        ((1, 2), (99, 100), None),
        ((2, 2), (5, 100), LimitKind.USER),
        ((3, 2), (5, 100), LimitKind.USER),  # a limit that was lowered
        ((0, 2), (100, 100), LimitKind.GLOBAL),
        ((2, 2), (100, 100), LimitKind.USER),  # the one they can do something about
        ((0, 0), (0, 100), LimitKind.USER),
    ],
)
def test_which_limit_forbids_one_more(
    user: tuple[int, int], everyone: tuple[int, int], limit: LimitKind | None
) -> None:
    assert exceeded(user=Usage(*user), everyone=Usage(*everyone)) is limit
