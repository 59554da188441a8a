"""A command in a local workspace has the rights and the sight of the IDE beside it, and no more."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.runtimes.exec_stream import Stream, TerminalSize
from codehub.runtimes.local import LocalRuntime
from codehub.runtimes.local.records import find_record
from tests.contract.exec_suite import all_of, patience, sh
from tests.contract.runtime_suite import FIRST, start
from tests.support.local_environment import LocalEnvironment
from tests.support.requirements import require_bubblewrap
from tests.support.waiting import until

_LOOK = r"""
import json, os, socket, sys
given = json.loads(sys.argv[1])
seen = {"files": [], "sockets": [], "written": []}
for path in given["files"]:
    try:
        os.stat(path)
        seen["files"].append(path)
    except OSError:
        pass
for path in given["sockets"]:
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
            seen["sockets"].append(path)
        except OSError:
            pass
for path in given["writes"]:
    try:
        open(path, "a").close()
        seen["written"].append(path)
    except OSError:
        pass
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
seen["rights"] = {name: status[name].split() for name in given["rights"]}
seen["namespaces"] = {name: os.readlink("/proc/self/ns/" + name) for name in os.listdir("/proc/self/ns")}
seen["descriptors"] = sorted(int(each) for each in os.listdir("/proc/self/fd"))[:-1]
seen["processes"] = [each for each in os.listdir("/proc") if each.isdigit()]
print(json.dumps(seen))
"""
_RIGHTS = ["Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapAmb", "NoNewPrivs", "Seccomp", "Umask"]


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    require_bubblewrap()
    environment = LocalEnvironment(tmp_path, use_bubblewrap=True)
    yield environment
    await environment.close()


async def awake(environment: LocalEnvironment, runtime: LocalRuntime) -> UUID:
    ws = uuid4()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    return ws


def ide_of(environment: LocalEnvironment, ws: UUID) -> int:
    """The pid of the IDE: the grandchild of the recorded process."""
    record = find_record(environment.layout().process(ws))
    assert record is not None
    pid = record.identity.pid
    for _ in range(2):
        pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    return pid


def rights_of(pid: int) -> dict[str, list[str]]:
    status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {name: status[name].split() for name in _RIGHTS}


def exists(path: str) -> bool:
    return Path(path).exists()


async def test_it_sees_and_may_do_what_the_ide_does_and_no_more(environment: LocalEnvironment) -> None:
    runtime = await environment.open()
    ws, other = await awake(environment, runtime), await awake(environment, runtime)
    await environment.write(other, "secret.txt", "theirs")
    layout = environment.layout()
    listening = socket.socket(socket.AF_UNIX)
    path = str(layout.data_dir / "s")
    listening.bind(path)
    listening.listen()
    asked = {
        "files": [str(layout.volume(other)), str(layout.volume(other) / "secret.txt"), str(layout.locks)],
        "sockets": [path],
        "writes": [
            str(layout.volume(ws) / "mine.txt"),
            "/etc/x",
            sys.prefix + "/x",
            str(layout.data_dir / "x"),
        ],
        "rights": _RIGHTS,
    }
    async with patience():
        argv = [sys.executable, "-I", "-S", "-c", _LOOK, json.dumps(asked)]
        async with await runtime.exec(ws, argv) as stream:
            output = await all_of(stream)
    listening.close()
    seen = json.loads(output[Stream.STDOUT])
    assert seen["files"] == []
    assert seen["sockets"] == []
    mine, *others = seen["written"]
    assert mine == str(layout.volume(ws) / "mine.txt")
    assert not any(map(exists, others))  # into the empty directory before it, or nowhere
    assert seen["descriptors"] == [0, 1, 2]
    ide = ide_of(environment, ws)
    assert seen["rights"] == rights_of(ide)
    assert seen["namespaces"] == {name: os.readlink(f"/proc/{ide}/ns/{name}") for name in seen["namespaces"]}
    assert len(seen["processes"]) < 10


async def test_a_terminal_is_one_of_the_sandbox(environment: LocalEnvironment) -> None:
    runtime = await environment.open()
    ws = await awake(environment, runtime)
    async with patience(), await runtime.exec(ws, sh('tty; ls "$(tty)"'), tty=TerminalSize()) as stream:
        said = (await all_of(stream))[Stream.STDOUT].decode().split()
    assert len(said) == 2
    assert said[0] == said[1]
    assert said[0].startswith("/dev/pts/")


async def test_nothing_is_left_by_a_thousand_cuts(environment: LocalEnvironment) -> None:
    """Cancelled at any moment, an exec leaves neither a process nor a descriptor."""
    runtime = await environment.open()
    ws = await awake(environment, runtime)
    before = set(os.listdir("/proc/self/fd"))
    async with patience():
        for step in range(20):

            async def use() -> None:
                async with await runtime.exec(ws, ["sleep", "1234"]) as stream:
                    await stream.read()

            task = asyncio.create_task(use())
            await asyncio.wait([task], timeout=step * 0.008)
            task.cancel()
            await asyncio.wait([task])

    async def are_gone() -> bool:
        async with await runtime.exec(ws, sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")) as stream:
            return b"sleep 1234" not in (await all_of(stream))[Stream.STDOUT]

    async def are_closed() -> bool:
        return not set(os.listdir("/proc/self/fd")) - before

    await until(are_gone, what="all commands have ended")
    await until(are_closed, what="all descriptors are closed")


async def test_a_dead_codehub_hangs_up(environment: LocalEnvironment, tmp_path: Path) -> None:
    """A command gets SIGHUP when the process that started it is killed."""
    runtime = await environment.open()
    ws = await awake(environment, runtime)
    driver = (
        "import asyncio, os, sys\n"
        "from pathlib import Path\nfrom uuid import UUID\n"
        "from tests.support.local_environment import LocalEnvironment\n"
        "async def main():\n"
        "    runtime = await LocalEnvironment(Path(sys.argv[1]), use_bubblewrap=True).open()\n"
        "    await runtime.exec(UUID(sys.argv[2]), ['sleep', '4321'])\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", driver, str(tmp_path), str(ws))
    assert await process.wait() == -9

    async def is_gone() -> bool:
        async with await runtime.exec(ws, sh("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")) as stream:
            return b"sleep 4321" not in (await all_of(stream))[Stream.STDOUT]

    await until(is_gone, what="the command has ended")
