"""Map containers and volumes to observed status and health. First match wins.

The Observer lists containers and volumes in bulk and calls ``observe`` for each row. Only what exists
counts: no return value, no event, no intent. ``health`` is a verdict beside the observation and never
replaces it, so a broken workspace still shows what exists.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache

from codehub.domain.errors import ErrorInfo, FailureCode, Reason
from codehub.domain.states import ContainerState, HealthStatus, ObservedStatus, Operation


class Broken(StrEnum):
    """A combination of resources that violates an invariant."""

    NO_VOLUME = "no volume"  # a container without its volume
    PAUSED = "paused"  # a container that is wanted running was frozen from outside CodeHub


@dataclass(frozen=True)
class ObservedState:
    """Observed status and health of one workspace."""

    observed_status: ObservedStatus
    health_status: HealthStatus
    broken: Broken | None = None  # terminal: nothing is changed until a person recovers


@cache  # called for every row of every observation, with two dozen distinct results
def observe(
    *,
    container: ContainerState,
    volume: bool,
    deleted: bool,
    terminal_error: bool,
    paused: bool = False,
) -> ObservedState:
    """The observed status and health of a workspace with these resources.

    ``paused``: frozen, although it is wanted running and no operation is in flight.
    """
    broken = _broken(container=container, volume=volume, paused=paused)
    health = HealthStatus.ERROR if terminal_error or broken is not None else HealthStatus.OK
    return ObservedState(_status(container=container, volume=volume, deleted=deleted), health, broken)


def _broken(*, container: ContainerState, volume: bool, paused: bool) -> Broken | None:
    if container is not ContainerState.NONE and not volume:
        return Broken.NO_VOLUME
    return Broken.PAUSED if container is ContainerState.RUNNING and paused else None


def _status(*, container: ContainerState, volume: bool, deleted: bool) -> ObservedStatus:
    if deleted and container is ContainerState.NONE and not volume:
        return ObservedStatus.DELETED
    if (
        container is ContainerState.RUNNING
    ):  # whether or not it accepts connections yet: the proxy waits for that
        return ObservedStatus.RUNNING
    if volume:
        return ObservedStatus.STANDBY
    return ObservedStatus.PENDING


_MESSAGES: dict[Broken, tuple[str, dict[str, str]]] = {
    Broken.NO_VOLUME: (
        "A container exists without its volume. Nothing is changed until a person has looked.",
        {"expected": "volume_exists=True", "actual": "False"},
    ),
    Broken.PAUSED: (
        "The container is paused (docker pause): it holds its memory and answers nobody. Unpause it "
        "(docker unpause), then recover.",
        {"code": FailureCode.CONTAINER_PAUSED.value, "expected": "running", "actual": "paused"},
    ),
}


def invariant_error(broken: Broken, *, operation: Operation, error_count: int, now: datetime) -> ErrorInfo:
    """The error the Observer writes once, where ``error_info`` is NULL.

    Every other error is written by the Reconciler alone.
    """
    message, context = _MESSAGES[broken]
    return ErrorInfo(
        reason=Reason.MISMATCH,
        message=message,
        is_terminal=True,
        operation=operation,
        error_count=error_count,
        occurred_at=now,
        context=context,
    )
