"""What a person who opens a workspace's address meets, for every combination of columns."""

from datetime import timedelta
from itertools import product

import pytest

from codehub.domain.states import DesiredState, ObservedStatus, Operation
from codehub.domain.waking import STARTING_UP, ErrorNote, Phase, error_note, is_starting_up, phase_of
from codehub.domain.workspace import HomeContext

from .builders import NOW, an_error, seconds, workspace

D, S, O = DesiredState, ObservedStatus, Operation  # noqa: E741


@pytest.mark.parametrize(("desired", "observed"), list(product(D, S)), ids=str)
def test_an_error_is_shown_whatever_else_is_so(desired: DesiredState, observed: ObservedStatus) -> None:
    ws = workspace(desired_state=desired, observed_status=observed, error_info=an_error(is_terminal=True))
    assert phase_of(ws) is Phase.ERROR


@pytest.mark.parametrize(("desired", "observed"), list(product([D.PENDING, D.STANDBY], S)), ids=str)
def test_what_nobody_wants_running_is_asleep_even_while_it_runs(
    desired: DesiredState, observed: ObservedStatus
) -> None:
    assert phase_of(workspace(desired_state=desired, observed_status=observed)) is Phase.ASLEEP


@pytest.mark.parametrize(
    ("observed", "phase"),
    [(S.PENDING, Phase.WAKING), (S.STANDBY, Phase.WAKING), (S.RUNNING, Phase.RUNNING)],
)
def test_what_is_wanted_running_wakes_until_it_is_seen(observed: ObservedStatus, phase: Phase) -> None:
    assert phase_of(workspace(desired_state=D.RUNNING, observed_status=observed)) is phase


@pytest.mark.parametrize(
    ("ran_for", "starting_up"), [(seconds(0), True), (STARTING_UP - seconds(1), True), (STARTING_UP, False)]
)
def test_a_server_has_a_minute_to_listen(ran_for: timedelta, starting_up: bool) -> None:
    ws = workspace(
        desired_state=D.RUNNING,
        observed_status=S.RUNNING,
        observed_at=NOW,
        home=HomeContext(volume=True, ran_at=NOW - ran_for),
    )
    assert is_starting_up(ws) is starting_up
    assert is_starting_up(workspace(operation=O.STARTING, observed_at=NOW, home=ws.home))


def test_without_a_time_it_is_starting_up_while_it_runs() -> None:
    assert is_starting_up(workspace(observed_status=S.RUNNING))
    assert not is_starting_up(workspace(observed_status=S.STANDBY))


def test_an_error_is_told_with_its_reason() -> None:
    info = an_error(is_terminal=True)
    assert error_note(workspace(error_info=info)) == ErrorNote(info.reason.value, info.message)
    assert error_note(workspace()) == ErrorNote("error", "")
