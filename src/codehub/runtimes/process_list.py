"""Processes of a workspace, as ``/proc`` shows them: what they cost, and which hold a terminal's foreground.

The local runtime reads ``/proc`` itself. Other engines run a command in the container, which sees what the IDE sees:
its own processes. All of it is said by the workspace about itself, and is believed as such.
"""

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.exec_stream import NOT_EXECUTABLE, NOT_FOUND, ExecStream, Stream

LONGEST_LIST = 4 * 1024**2
LIST_SECONDS = 10.0
HOLDER_NAME = "codehub-hold"
"""What ``inside hold`` calls itself (``inside/holder.go``)."""
# cat reads what the shell has found; processes that have ended meanwhile are none of ours to complain about.
LIST_COMMAND = ("sh", "-c", "cat /proc/[0-9]*/stat 2>/dev/null; exit 0")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")  # of the kernel's interface: the same on every Linux


@dataclass(frozen=True)
class RunningProcess:
    """One process. ``cpu_seconds``: its own and those of the children it has waited for."""

    pid: int
    name: str
    parent: int
    group: int
    session: int
    foreground: int  # the process group in the foreground of its terminal; below 1: it has none
    cpu_seconds: float

    @property
    def is_job(self) -> bool:
        """Whether it runs in the foreground of a terminal, started by the shell that leads the session."""
        return self.foreground > 0 and self.group == self.foreground != self.session

    @property
    def leads_session(self) -> bool:
        """Whether it was started with a session of its own, and without a terminal."""
        return self.foreground < 1 and self.pid == self.session


def find_jobs(processes: Sequence[RunningProcess]) -> list[RunningProcess]:
    """Programs in the foreground of terminals, and detached processes: children of ``inside hold``. By pid."""
    holders = {each.pid for each in processes if each.name == HOLDER_NAME}
    jobs = [each for each in processes if each.is_job or (each.leads_session and each.parent in holders)]
    return sorted(jobs, key=lambda each: each.pid)


class Executing(Protocol):
    """What a runtime must do so that processes can be listed in its containers."""

    async def exec(self, workspace_id: UUID, argv: Sequence[str]) -> ExecStream: ...


@runtime_checkable
class ListsProcesses(Protocol):
    """A runtime that sees the processes of its workspaces from outside, which costs less than a command in them."""

    async def processes(self, workspace_id: UUID) -> list[RunningProcess]: ...


async def list_processes(runtime: Executing, workspace_id: UUID) -> list[RunningProcess] | None:
    """List the processes of a running workspace; None: it has no shell, or no ``cat``, to ask.

    Raises ``EffectError`` or ``TimeoutError``: nothing follows then.
    """
    if isinstance(runtime, ListsProcesses):
        return await runtime.processes(workspace_id)
    return await _list_by_exec(runtime, workspace_id)


def parse_stat(line: bytes) -> RunningProcess:
    """Parse the content of ``/proc/{pid}/stat``. Raises ``ValueError``."""
    # The name in parentheses may hold anything, parentheses and spaces included: cut at the last one.
    head, name = line[: line.index(b"(")], line[line.index(b"(") + 1 : line.rindex(b")")]
    fields = line[line.rindex(b")") + 2 :].split()
    if len(fields) < 15:
        raise ValueError("a line of /proc/*/stat is cut short")
    return RunningProcess(
        pid=int(head),
        name=name.decode(errors="replace"),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        foreground=int(fields[5]),
        cpu_seconds=sum(map(int, fields[11:15])) / _TICKS_PER_SECOND,
    )


def parse_list(said: bytes) -> list[RunningProcess]:
    """Parse many. Lines that are none, such as halves of a name with a line break, are left out."""
    found = []
    for line in said.splitlines():
        try:
            found.append(parse_stat(line))
        except ValueError:
            continue
    return found


async def _list_by_exec(runtime: Executing, workspace_id: UUID) -> list[RunningProcess] | None:
    said = bytearray()
    async with asyncio.timeout(LIST_SECONDS), await runtime.exec(workspace_id, LIST_COMMAND) as stream:
        await stream.close_stdin()
        while (piece := await stream.read()) is not None:
            if piece.stream is Stream.STDOUT:
                said += piece.data
            if len(said) > LONGEST_LIST:
                raise EffectError(FailureCode.EXEC_FAILED, "the list of processes is too long")
        ended = await stream.wait()
    if ended.code in (NOT_FOUND, NOT_EXECUTABLE) or not said:
        return None
    return parse_list(bytes(said))
