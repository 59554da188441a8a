"""Starting peers, and what a tree of processes costs: CPU seconds and memory, read from /proc.

The programs that stand for people's workspaces live in ``bench/programs`` and are left out: a control plane
is measured, not what it starts.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"
TICKS = os.sysconf("SC_CLK_TCK")
SECONDS_TO_STOP = 20.0


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A peer for the length of the block; ended by its pid, politely first."""
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        await end(process)


async def end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), SECONDS_TO_STOP)
    except TimeoutError:
        process.kill()
        await process.wait()


def tree(roots: Iterable[int]) -> list[int]:
    """These processes and their descendants, without the workspaces."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    ahead = list(roots)
    while ahead:
        pid = ahead.pop()
        if not _is_workspace(pid):
            found.append(pid)
            ahead.extend(children.get(pid, ()))
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """User and system time so far. A process that has gone counts nothing."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def cpu_nanoseconds(pid: int) -> int:
    """CPU time of all threads that live, by the scheduler's own clock: finer than the ticks of ``cpu_seconds``."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)


def memory_mib(pids: Iterable[int]) -> float:
    """Proportional set size: shared pages are counted once, however many processes map them."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1024


def resident_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _is_workspace(pid: int) -> bool:
    """By its program, or (a program that became another one) by the home it was given."""
    line = command_line(pid)
    return str(PROGRAMS) in line or "/volumes/" in line
