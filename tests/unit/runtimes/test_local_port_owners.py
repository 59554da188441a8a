"""Who owns a port is found in the workspace's own tree of processes, and outside of it by its mark."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID, uuid4

import pytest

from codehub.runtimes.local import port_owners
from codehub.runtimes.local.port_owners import PortOwners
from codehub.runtimes.local.processes import (
    ProcessIdentity,
    Stat,
    boot_id,
    find_descendants,
    find_stat,
    members,
)
from codehub.runtimes.local.spawn import WORKSPACE_VARIABLE

# A program that listens, has a child that does, and one that left the tree (and the session) and does.
# Nothing is reported before the one in between has ended: until then it has not left.
PROGRAM = """
import os, signal, socket

def listen():
    server = socket.create_server(("127.0.0.1", 0))
    return server, f"{os.getpid()} {server.getsockname()[1]}\\n".encode()

def begin():
    if os.fork() == 0:
        server, report = listen()
        os.write(write, report)
        signal.pause()

read, write = os.pipe()
server, reports = listen()
begin()
reports += os.read(read, 64)
between = os.fork()
if between == 0:
    os.setsid()
    begin()
    os._exit(0)
os.waitpid(between, 0)
os.write(1, reports + os.read(read, 64))
signal.pause()
"""


@dataclass
class Program:
    workspace_id: UUID
    identity: ProcessIdentity
    pids: list[int]  # of the leader, its child, and the one that left
    ports: list[int]


@pytest.fixture
def program() -> Iterator[Program]:
    workspace_id = uuid4()
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        env={WORKSPACE_VARIABLE: str(workspace_id)},
        start_new_session=True,
    )
    assert process.stdout is not None
    lines = [process.stdout.readline().split() for _ in range(3)]
    pids, ports = [int(pid) for pid, _ in lines], [int(port) for _, port in lines]
    try:
        yield Program(workspace_id, identity_of(process.pid), pids, ports)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def identity_of(pid: int) -> ProcessIdentity:
    stat = find_stat(pid)
    assert stat is not None
    return ProcessIdentity(pid, stat.start_ticks, boot_id())


def test_descendants_are_members_and_one_that_left_is_found_by_its_mark(program: Program) -> None:
    tree = {stat.pid for stat in find_descendants(program.identity)}
    everybody = {
        stat.pid for stat in members(program.identity, f"{WORKSPACE_VARIABLE}={program.workspace_id}")
    }
    assert tree == set(program.pids[:2])
    assert everybody == set(program.pids)


def test_every_port_is_its_workspaces_own_and_nobody_elses(program: Program) -> None:
    stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
    other = identity_of(stranger.pid)
    for port in program.ports:
        assert PortOwners().find_host(program.workspace_id, program.identity, port) == "127.0.0.1"
        assert PortOwners().find_host(uuid4(), other, port) is None
        found = PortOwners().find_listener(
            program.workspace_id, program.identity, host="127.0.0.1", port=port
        )
        assert found is not None
        assert len(found) == 1
    stranger.kill()
    stranger.wait()


def test_a_port_inside_the_tree_costs_no_scan_of_all_processes(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scan(_leader: ProcessIdentity, _marker: str) -> list[Stat]:
        raise AssertionError("all processes were read")

    monkeypatch.setattr(port_owners, "members", scan)
    owners = PortOwners()
    for port in program.ports[:2]:
        assert owners.find_host(program.workspace_id, program.identity, port) == "127.0.0.1"
    with pytest.raises(AssertionError):
        owners.find_host(program.workspace_id, program.identity, program.ports[2])


def test_an_ended_leader_has_no_descendants(program: Program) -> None:
    wrong = ProcessIdentity(program.identity.pid, program.identity.start_ticks + 1, boot_id())
    assert find_descendants(wrong) == []
