"""Repeat a call until the workspace it woke runs."""

import time
from collections.abc import Callable
from typing import TypeVar

from codehub.cli.output import complain

T = TypeVar("T")

PATIENCE_SECONDS = 900.0
PAUSE_SECONDS = 0.5


def while_it_wakes(call: Callable[[], T], *, wake: bool) -> T:
    """Call again while CodeHub says that the workspace is starting, if it was asked to wake it."""
    from codehub.cli.refusals import Refusal

    deadline = time.monotonic() + PATIENCE_SECONDS
    told = False
    while True:
        try:
            return call()
        except Refusal as refusal:
            if not wake or refusal.problem != "waking" or time.monotonic() > deadline:
                raise
        if not told:
            complain("The workspace is starting …")
            told = True
        time.sleep(PAUSE_SECONDS)
