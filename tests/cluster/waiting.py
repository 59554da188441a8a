"""Waiting for a cluster: for a condition with a deadline, never for an amount of time. Blocking."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T | None], what: str, *, seconds: float = 60) -> T:
    """The first true answer of ``condition``."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}; last answer: {answer!r}")
        time.sleep(0.05)
    return answer
