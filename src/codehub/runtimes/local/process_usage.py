"""List the processes of a workspace of the local runtime, with what they cost. Blocking.

In a sandbox all of them descend from its first process. Without one, a process may leave the tree and is found by the
mark in its environment, which takes a scan of the whole machine.
"""

from collections.abc import Callable
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.local.processes import find_descendants, members, read_line
from codehub.runtimes.local.records import ProcessRecord
from codehub.runtimes.local.spawn import WORKSPACE_VARIABLE
from codehub.runtimes.process_list import RunningProcess, parse_stat

FindRunning = Callable[[UUID], ProcessRecord | None]


def list_running(find_running: FindRunning, workspace_id: UUID, sandboxed: bool) -> list[RunningProcess]:
    """List them. Raises ``CONTAINER_NOT_RUNNING`` without a running process on record."""
    record = find_running(workspace_id)
    if record is None:
        raise EffectError(FailureCode.CONTAINER_NOT_RUNNING, "the workspace does not run")
    if sandboxed:
        stats = find_descendants(record.identity)
    else:
        stats = members(record.identity, f"{WORKSPACE_VARIABLE}={workspace_id}")
    found = []
    for stat in stats:
        try:
            found.append(parse_stat(read_line(f"/proc/{stat.pid}/stat")))
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended meanwhile
    return found
