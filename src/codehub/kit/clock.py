"""Two clocks a process may ask itself, neither of which decides anything about a workspace.

What happens to workspaces is decided on the database's time alone (``clock_timestamp()``). These serve
for intervals within one process.
"""

import time


def monotonic() -> float:
    """Seconds for measuring durations; stands still while the machine sleeps."""
    return time.monotonic()


def boottime() -> float:
    """Seconds since boot, *including* suspend and SIGSTOP: how long ago did I last know something?"""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()
