"""From what exists to what is written down: the Observer's rule, first match wins.

The Observer lists containers and volumes in bulk and asks here what each row should say. Only what
exists counts: no return value, no event, no intent. ``health`` is a verdict beside the observation and
never replaces it, so a broken workspace still shows what is really there.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache

from codehub.domain.errors import ErrorInfo, FailureCode, Reason
from codehub.domain.states import ContainerState, HealthStatus, ObservedStatus, Operation


class Broken(StrEnum):
    """What exists and must not be."""

    NO_VOLUME = "no volume"  # a container without its volume (contract 6)
    PAUSED = "paused"  # somebody froze a container that people are waiting for


@dataclass(frozen=True)
class Verdict:
    observed_status: ObservedStatus
    health_status: HealthStatus
    broken: Broken | None = None  # nothing is changed until a person has looked


@cache  # asked for every row of every look, and there are two dozen answers
def observe(
    *,
    container: ContainerState,
    volume: bool,
    deleted: bool,
    terminal_error: bool,
    paused: bool = False,
) -> Verdict:
    """What the row of a workspace with these resources should say.

    ``paused``: frozen, although it is wanted running and nothing is being done with it.
    """
    broken = _broken(container=container, volume=volume, paused=paused)
    health = HealthStatus.ERROR if terminal_error or broken is not None else HealthStatus.OK
    return Verdict(_status(container=container, volume=volume, deleted=deleted), health, broken)


def _broken(*, container: ContainerState, volume: bool, paused: bool) -> Broken | None:
    if container is not ContainerState.NONE and not volume:
        return Broken.NO_VOLUME
    return Broken.PAUSED if container is ContainerState.RUNNING and paused else None


def _status(*, container: ContainerState, volume: bool, deleted: bool) -> ObservedStatus:
    if deleted and container is ContainerState.NONE and not volume:
        return ObservedStatus.DELETED
    if container is ContainerState.RUNNING:  # whether or not it answers yet: the proxy waits for that
        return ObservedStatus.RUNNING
    if volume:
        return ObservedStatus.STANDBY
    return ObservedStatus.PENDING


_SAID: dict[Broken, tuple[str, dict[str, str]]] = {
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
    """What the Observer may write once, where ``error_info`` is NULL (contract 3)."""
    message, context = _SAID[broken]
    return ErrorInfo(
        reason=Reason.MISMATCH,
        message=message,
        is_terminal=True,
        operation=operation,
        error_count=error_count,
        occurred_at=now,
        context=context,
    )
