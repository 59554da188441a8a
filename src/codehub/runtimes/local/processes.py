"""Identify processes by ``/proc``, and signal them safely despite pid reuse.

A pid alone proves nothing: the kernel reuses it. A process is identified by its pid, the tick at which it started
(field 22 of ``/proc/{pid}/stat``) and the boot in which that tick counts. Signals go through a pidfd that is
opened first and compared second, so the pid cannot be reused between the check and the signal.
"""

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

LINE_BYTES = 64 * 1024


@dataclass(frozen=True)
class ProcessIdentity:
    """Identity of one process, unique across pid reuse and reboots."""

    pid: int
    start_ticks: int
    boot_id: str


@dataclass(frozen=True)
class Stat:
    """The fields of ``/proc/{pid}/stat`` used here."""

    pid: int
    state: str
    ppid: int
    session: int
    start_ticks: int

    @property
    def is_alive(self) -> bool:
        return self.state not in "ZX"  # a zombie runs nothing; it only waits to be reaped


@cache
def boot_id() -> str:
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def read_line(path: str | os.PathLike[str]) -> bytes:
    """Read a file of one short line.

    Without a file object: each observation reads hundreds.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, LINE_BYTES)
    finally:
        os.close(descriptor)


def find_stat(pid: int) -> Stat | None:
    """The stat of a process; None: no such process.

    Other failures raise: they do not mean "gone".
    """
    try:
        raw = read_line(f"/proc/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name in parentheses may hold anything, parentheses and spaces included: cut at the last one.
    fields = raw[raw.rindex(b")") + 2 :].split()
    return Stat(
        pid=pid,
        state=fields[0].decode(),
        ppid=int(fields[1]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
    )


def is_alive(identity: ProcessIdentity) -> bool:
    if identity.boot_id != boot_id():
        return False
    stat = find_stat(identity.pid)
    return stat is not None and stat.is_alive and stat.start_ticks == identity.start_ticks


def members(leader: ProcessIdentity, marker: str) -> list[Stat]:
    """Living processes of ``leader``: its session, those with its mark, descendants.

    ``marker`` is an environment entry (``NAME=value``) given to the leader and inherited by all that
    it started: a terminal in a session of its own is found by it. While the leader lives its session
    number is certain. After its death the number may be reused, so then only the mark counts, and
    what descends from a marked process.
    """
    table = {stat.pid: stat for stat in _all_processes() if stat.is_alive}
    table.pop(os.getpid(), None)
    if leader.boot_id != boot_id():
        return []
    head = table.get(leader.pid)
    session = leader.pid if head is not None and head.start_ticks == leader.start_ticks else None
    wanted = marker.encode()
    found = {
        stat.pid
        for stat in table.values()
        if stat.start_ticks >= leader.start_ticks  # a member is never older than its leader
        and (stat.session == session or wanted in _environment(stat.pid))
    }
    return [table[pid] for pid in _with_descendants(found, table)]


def find_descendants(leader: ProcessIdentity) -> list[Stat]:
    """``leader`` and what descends from it: some of its ``members``, without a scan of all processes.

    One that began or ended meanwhile may be missing with its descendants, and so is a process that another one
    adopted. Empty once the leader has ended.
    """
    if not is_alive(leader):
        return []
    found: list[Stat] = []
    todo = [leader.pid]
    while todo:
        stat = find_stat(todo.pop())
        if stat is not None and stat.is_alive and stat.start_ticks >= leader.start_ticks:
            found.append(stat)
            todo += _children(stat.pid)
    return found


def send_signal(stat: Stat, number: signal.Signals) -> None:
    """Signal exactly this process; no error if it is gone."""
    try:
        fd = os.pidfd_open(stat.pid)
    except ProcessLookupError:
        return
    try:
        now = find_stat(stat.pid)
        if now is not None and now.start_ticks == stat.start_ticks:
            signal.pidfd_send_signal(fd, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(fd)


def any_alive(stats: Iterable[Stat]) -> bool:
    for stat in stats:
        now = find_stat(stat.pid)
        if now is not None and now.is_alive and now.start_ticks == stat.start_ticks:
            return True
    return False


def _all_processes() -> Iterator[Stat]:
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := find_stat(int(name))) is not None:
            yield stat


def _children(pid: int) -> list[int]:
    """Children of a process, which the kernel keeps for each thread; none where it does not tell."""
    with suppress(OSError):
        return [
            int(child)
            for thread in os.listdir(f"/proc/{pid}/task")
            for child in read_line(f"/proc/{pid}/task/{thread}/children").split()
        ]
    return []


def _environment(pid: int) -> list[bytes]:
    """The process's initial environment; empty for other users' processes and ended ones."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _with_descendants(found: set[int], table: dict[int, Stat]) -> set[int]:
    children: dict[int, list[int]] = {}
    for stat in table.values():
        children.setdefault(stat.ppid, []).append(stat.pid)
    todo = list(found)
    while todo:
        for pid in children.get(todo.pop(), ()):
            if pid not in found:
                found.add(pid)
                todo.append(pid)
    return found
