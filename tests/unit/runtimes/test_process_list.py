"""What ``/proc/*/stat`` says of a workspace's processes, whatever their names are."""

import os

import pytest

from codehub.runtimes.process_list import HOLDER_NAME, RunningProcess, find_jobs, parse_list, parse_stat


def stat(
    pid: int,
    name: str,
    *,
    group: int,
    session: int,
    foreground: int = -1,
    ticks: int = 0,
    parent: int = 1,
) -> bytes:
    rest = f"{parent} {group} {session} 0 {foreground} 0 0 0 0 0 {ticks} 1 1 1 20 0 1 0 100"
    return f"{pid} ({name}) S {rest}\n".encode()


def test_a_line_is_read() -> None:
    per_second = os.sysconf("SC_CLK_TCK")
    found = parse_stat(stat(7, "a) b (c", group=5, session=4, foreground=5, ticks=97))
    assert found == RunningProcess(7, "a) b (c", 1, 5, 4, 5, cpu_seconds=100 / per_second)


def test_this_process_is_read() -> None:
    with open("/proc/self/stat", "rb") as file:
        found = parse_stat(file.read())
    assert (found.pid, found.group, found.session) == (os.getpid(), os.getpgrp(), os.getsid(0))
    assert found.cpu_seconds > 0


@pytest.mark.parametrize(
    ("group", "session", "foreground", "is_job"),
    [
        (4, 4, 4, False),  # a shell that waits for input
        (5, 4, 5, True),  # what it runs
        (6, 4, 5, False),  # what it runs in the background
        (5, 4, -1, False),  # no terminal
        (5, 4, 0, False),  # a terminal that is gone
    ],
)
def test_a_job_is_what_a_shell_runs_in_the_foreground(
    group: int, session: int, foreground: int, is_job: bool
) -> None:
    assert parse_stat(stat(9, "x", group=group, session=session, foreground=foreground)).is_job is is_job


def test_detached_processes_are_jobs() -> None:
    said = b"".join(
        [
            stat(5, HOLDER_NAME, group=5, session=5),
            stat(9, "train", group=9, session=9, parent=5),
            stat(8, "shell", group=8, session=8, foreground=8, parent=5),  # of a terminal, which waits
            stat(10, "left", group=8, session=8, parent=5),  # what a shell left behind
            stat(11, "daemon", group=11, session=11),  # the IDE's own affair
        ]
    )
    assert [each.name for each in find_jobs(parse_list(said))] == ["train"]


def test_lines_that_are_none_are_left_out() -> None:
    said = b"".join(
        [
            stat(1, "one", group=1, session=1),
            stat(2, "a\nb", group=1, session=1),  # its name breaks the line
            b"3 (cut",
            b"\n4 (short) S 1\n",
            stat(5, "five", group=1, session=1),
        ]
    )
    assert [each.name for each in parse_list(said)] == ["one", "five"]
