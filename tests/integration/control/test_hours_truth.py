"""The hours of the timeline are those of the processes: within 1 % of what the kernel says.

By default a workspace runs for five minutes at least (its idle time), so one run may be off by three seconds.
"""

import os
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

from codehub.store.workspaces.hours import add_up
from tests.support.control import ControlEnvironment, environ_of_processes
from tests.support.waiting import until

SHORTEST_RUN_SECONDS = 300.0
TOLERATED_SECONDS = SHORTEST_RUN_SECONDS * 0.01


def began_at(folder: Path) -> float:
    """When a process began, as seconds since the epoch."""
    ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
    boot = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime"))
    return float(boot.split()[1]) + ticks / os.sysconf("SC_CLK_TCK")


def processes_of(environment: ControlEnvironment, workspace_id: UUID) -> list[Path]:
    wanted = str(workspace_id).encode()
    return [
        folder
        for folder, environ in environ_of_processes()
        if any(wanted in each for each in environ) and str(environment.data_dir).encode() in b"".join(environ)
    ]


async def test_the_timeline_counts_what_ran(environment: ControlEnvironment) -> None:
    since = datetime.now(UTC)
    async with environment.replica():
        workspace_id = await environment.create()
        await environment.until_status(workspace_id, "running")
        began = min(began_at(folder) for folder in processes_of(environment, workspace_id))
        await environment.intent(workspace_id, "stop")

        async def ended() -> float | None:
            return None if processes_of(environment, workspace_id) else datetime.now(UTC).timestamp()

        ran = (await until(ended, what="its processes to end") or 0.0) - began
        await environment.until_status(workspace_id, "standby")
    async with environment.sessions() as session:
        told = await add_up(session, owner_id=environment.owner_id, since=since, until=datetime.now(UTC))
    assert abs(told.ran * 3600 - ran) < TOLERATED_SECONDS
