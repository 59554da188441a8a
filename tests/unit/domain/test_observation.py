"""The observation table, complete: what is seen decides alone what is written down."""

from itertools import product

import pytest

from codehub.domain.errors import Reason
from codehub.domain.observation import Broken, ObservedState, invariant_error, observe
from codehub.domain.states import ContainerState, HealthStatus, ObservedStatus, Operation

from .builders import NOW

C, S = ContainerState, ObservedStatus

STATUS = {
    # (container, volume, deleted): observed_status
    (C.NONE, False, False): S.PENDING,
    (C.NONE, False, True): S.DELETED,
    (C.NONE, True, False): S.STANDBY,
    (C.NONE, True, True): S.STANDBY,
    (C.RUNNING, False, False): S.RUNNING,
    (C.RUNNING, False, True): S.RUNNING,
    (C.RUNNING, True, False): S.RUNNING,
    (C.RUNNING, True, True): S.RUNNING,
    (C.DEAD, False, False): S.PENDING,
    (C.DEAD, False, True): S.PENDING,  # a dead container is still something to remove: not DELETED
    (C.DEAD, True, False): S.STANDBY,
    (C.DEAD, True, True): S.STANDBY,
}


def test_the_table_has_every_row() -> None:
    assert set(STATUS) == set(product(C, (False, True), (False, True)))


@pytest.mark.parametrize("terminal", [False, True], ids=["fine", "terminal"])
@pytest.mark.parametrize("seen", STATUS, ids=str)
def test_observation(seen: tuple[ContainerState, bool, bool], terminal: bool) -> None:
    container, volume, deleted = seen
    observed = observe(container=container, volume=volume, deleted=deleted, terminal_error=terminal)

    without_volume = container in (C.RUNNING, C.DEAD) and volume is False
    assert observed.observed_status is STATUS[seen]
    assert (observed.broken is Broken.NO_VOLUME) is without_volume
    assert (observed.health_status is HealthStatus.ERROR) is (terminal or without_volume)


def test_a_container_without_its_volume_is_a_terminal_mismatch_with_the_agreed_context() -> None:
    error = invariant_error(Broken.NO_VOLUME, operation=Operation.STARTING, error_count=2, now=NOW)
    assert error.reason is Reason.MISMATCH
    assert error.is_terminal
    assert (error.operation, error.error_count, error.occurred_at) == (Operation.STARTING, 2, NOW)
    assert error.context == {"expected": "volume_exists=True", "actual": "False"}


def test_a_paused_container_is_running_and_broken() -> None:
    observed = observe(
        container=ContainerState.RUNNING, volume=True, deleted=False, terminal_error=False, paused=True
    )
    assert observed == ObservedState(ObservedStatus.RUNNING, HealthStatus.ERROR, Broken.PAUSED)
    error = invariant_error(Broken.PAUSED, operation=Operation.NONE, error_count=0, now=NOW)
    assert (error.reason, error.is_terminal, error.context["code"]) == (
        Reason.MISMATCH,
        True,
        "CONTAINER_PAUSED",
    )
    assert "docker unpause" in error.message
