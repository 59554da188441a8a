"""Find and end embedded servers that a killed CodeHub left running.

A pid in a file proves nothing: pids are reused, and a data directory may have moved to another machine or
container. The working directory proves it: both PostgreSQL and Redis change to their own data directory, which
no other process does. Only the holder of the data directory's lock may call
this, so what is found here has no owner.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import structlog

from codehub.kit.clock import monotonic

log = structlog.get_logger(__name__)

LOOK_EVERY = 0.05


def processes_in(directory: Path, *, program: str | tuple[str, ...]) -> list[int]:
    """Pids with this working directory and program name prefix. Empty without /proc."""
    try:
        wanted = directory.stat()
        entries = os.listdir("/proc")
    except FileNotFoundError:
        return []
    found = []
    for entry in entries:
        if not entry.isdecimal():
            continue
        # A process we may not read, or that has just ended, is not one we started.
        with contextlib.suppress(OSError):
            if Path(os.readlink(f"/proc/{entry}/exe")).name.startswith(program) and os.path.samestat(
                os.stat(f"/proc/{entry}/cwd"), wanted
            ):
                found.append(int(entry))
    return sorted(found)


async def end_orphans(
    directory: Path,
    *,
    program: str | tuple[str, ...],
    leader: int | None,
    signals: Sequence[tuple[signal.Signals, float]],
) -> None:
    """End servers left running in ``directory``, and wait until they are gone.

    Only the leader (PostgreSQL's postmaster) is signalled while it lives: it ends its own children in order.
    """
    found = processes_in(directory, program=program)
    if not found:
        return
    log.warning("ending a server that was left behind", program=program, processes=found)
    for stop_signal, grace in (*signals, (signal.SIGKILL, 10.0)):
        targets = [leader] if leader in found and stop_signal is not signal.SIGKILL else found
        for pid in targets:
            if pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, stop_signal)
        deadline = monotonic() + grace
        while monotonic() < deadline:
            found = processes_in(directory, program=program)
            if not found:
                return
            await asyncio.sleep(LOOK_EVERY)
