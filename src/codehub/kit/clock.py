"""Monotonic clocks for intervals within one process.

Neither decides anything about a workspace: that is decided on the database's time alone
(``clock_timestamp()``).
"""

import time


def monotonic() -> float:
    """Return seconds for measuring durations; stands still while the machine sleeps."""
    return time.monotonic()


def boottime() -> float:
    """Return seconds since boot, *including* suspend and SIGSTOP.

    For the age of what a process last knew: a suspended process finds it old.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
