"""From what exists to what is written down: the Observer's rule, first match wins.

The Observer lists containers and volumes in bulk and asks here what each row should say. Only what
exists counts: no return value, no event, no wish. ``health`` is a verdict beside the observation and
never replaces it, so a broken workspace still shows what is really there.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import cache

from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.states import ContainerState, HealthStatus, ObservedStatus, Operation


@dataclass(frozen=True)
class Verdict:
    observed_status: ObservedStatus
    health_status: HealthStatus
    broken_invariant: bool = False  # a container without its volume (contract 6)


@cache  # asked for every row of every look, and there are two dozen answers
def observe(*, container: ContainerState, volume: bool, deleted: bool, terminal_error: bool) -> Verdict:
    """What the row of a workspace with these resources should say."""
    broken = container is not ContainerState.NONE and not volume
    health = HealthStatus.ERROR if terminal_error or broken else HealthStatus.OK
    return Verdict(_status(container=container, volume=volume, deleted=deleted), health, broken)


def _status(*, container: ContainerState, volume: bool, deleted: bool) -> ObservedStatus:
    if deleted and container is ContainerState.NONE and not volume:
        return ObservedStatus.DELETED
    if container is ContainerState.RUNNING:  # whether or not it answers yet: the proxy waits for that
        return ObservedStatus.RUNNING
    if volume:
        return ObservedStatus.STANDBY
    return ObservedStatus.PENDING


def invariant_error(*, operation: Operation, error_count: int, now: datetime) -> ErrorInfo:
    """What the Observer may write once, where ``error_info`` is NULL (contract 3)."""
    return ErrorInfo(
        reason=Reason.MISMATCH,
        message="A container exists without its volume. Nothing is changed until a person has looked.",
        is_terminal=True,
        operation=operation,
        error_count=error_count,
        occurred_at=now,
        context={"expected": "volume_exists=True", "actual": "False"},
    )
