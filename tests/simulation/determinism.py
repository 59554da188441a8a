"""Clocks, randomness and logs of the product, taken from the environment while a simulation runs.

A run must be repeatable from its seed: these five names are the only ones of the product that are replaced, and
they are put back afterwards. Everything else is passed in (``environment``).
"""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from uuid import UUID

import structlog

from codehub.coordinators import loop as product_loop
from codehub.kit import clock
from codehub.services import workspaces
from codehub.store.outage import DatabaseOutage
from tests.simulation.loop import CURRENT

if TYPE_CHECKING:
    from tests.simulation.environment import SimulatedEnvironment

_environments: list["SimulatedEnvironment"] = []


def current_environment() -> "SimulatedEnvironment":
    return _environments[-1]


@contextmanager
def in_environment(environment: "SimulatedEnvironment") -> Iterator[None]:
    _environments.append(environment)
    try:
        # Its log is written once a minute of a clock that each run begins anew.
        with patch.object(product_loop, "DATABASE", DatabaseOutage()):
            yield
    finally:
        _environments.pop()


@contextmanager
def deterministic() -> Iterator[None]:
    """For any number of runs: what differs between them is in the environment."""
    with (
        patch.object(product_loop, "random", SimpleNamespace(uniform=_uniform)),
        patch.object(workspaces, "uuid7", _seeded_uuid),
        patch.object(clock, "time", _Clocks()),
        quiet_logs(),
    ):
        yield


@contextmanager
def quiet_logs() -> Iterator[None]:
    """What the product logs goes into the trace, if somebody reads it."""
    before = structlog.get_config()
    structlog.configure(processors=[_to_trace], cache_logger_on_first_use=False)
    try:
        yield
    finally:
        structlog.configure(**before)


def _to_trace(_: Any, level: str, event: Any) -> Any:
    environment = current_environment() if _environments else None
    if environment is not None and environment.chaos.trace is not None:
        fields = {key: value for key, value in event.items() if key not in ("event", "exc_info")}
        environment.say(f"{CURRENT.get()}: {event.get('event')} {fields} {event.get('exc_info') or ''}")
    raise structlog.DropEvent


def _uniform(low: float, high: float) -> float:
    return current_environment().random.uniform(low, high)


def _seeded_uuid() -> UUID:
    return UUID(int=current_environment().random.getrandbits(128), version=4)


class _Clocks:
    """``time`` for ``kit.clock``: the loop's time, plus what the process's own clock has jumped."""

    CLOCK_BOOTTIME = 7

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    def clock_gettime(self, _clock: int) -> float:
        process = CURRENT.get()
        return self.monotonic() + (process.boot_offset if process is not None else 0.0)


def seeded(seed: int, stream: int) -> random.Random:
    return random.Random(seed * 1000 + stream)
