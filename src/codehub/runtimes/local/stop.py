"""End all processes of a workspace, and confirm it.

All processes are scanned to find whom to signal and whether any is left, not while waiting: then only those
already found are checked. After the kill the scan is repeated until it finds none, because a process may fork
while it is being killed.
"""

import asyncio
import signal

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.clock import monotonic
from codehub.runtimes.local.processes import ProcessIdentity, Stat, any_alive, members, send_signal
from codehub.runtimes.local.threads import Threads

_LEFTOVER_GRACE_SECONDS = 1.0
_KILL_SECONDS = 10.0


async def end_all(threads: Threads, leader: ProcessIdentity, marker: str, *, grace_seconds: float) -> None:
    """Send SIGTERM, wait ``grace_seconds``, send SIGKILL; returns when none is left.

    Once the leader has ended, its other processes get a second, not the whole grace: an interactive shell
    ignores SIGTERM and would make every stop slow.
    """
    if grace_seconds > 0:
        found = await threads.run(_signal_all, leader, marker, signal.SIGTERM)
        head = [stat for stat in found if stat.pid == leader.pid]
        await _wait_for(threads, head, seconds=grace_seconds)
        await _wait_for(threads, found, seconds=min(grace_seconds, _LEFTOVER_GRACE_SECONDS))
    deadline = monotonic() + _KILL_SECONDS
    while left := await threads.run(_signal_all, leader, marker, signal.SIGKILL):
        if monotonic() > deadline:
            raise EffectError(
                FailureCode.CONTAINER_STOP_FAILED,
                "processes are still there after SIGKILL",
                pids=[stat.pid for stat in left],
            )
        await _wait_for(threads, left, seconds=1.0)


def _signal_all(leader: ProcessIdentity, marker: str, number: signal.Signals) -> list[Stat]:
    found = members(leader, marker)
    for stat in found:
        send_signal(stat, number)
    return found


async def _wait_for(threads: Threads, stats: list[Stat], *, seconds: float) -> None:
    deadline = monotonic() + seconds
    pause = 0.002
    while await threads.run(any_alive, stats) and monotonic() < deadline:
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, 0.05)
