"""Doubles of the scripts in ``exec_suite`` for the fake runtime."""

import asyncio

from codehub.runtimes.exec_stream import Stream, TerminalSize
from codehub.runtimes.process_list import LIST_COMMAND
from tests.contract import exec_suite as suite
from tests.support.fake_exec import FakeProcess, Program


async def _count(process: FakeProcess) -> int:
    total = 0
    while data := await process.read():
        total += len(data)
    await process.say(f"{total}\n".encode())
    return 0


async def _both(process: FakeProcess) -> int:
    await process.say(b"to stdout\n")
    await process.say(b"to stderr\n", Stream.STDERR)
    return 7


async def _killed(process: FakeProcess) -> int:
    return 128 + 9


async def _terminated(process: FakeProcess) -> int:
    return 128 + 15


async def _surroundings(process: FakeProcess) -> int:
    env = process.env
    await process.say(f"{env['GREETING']}|{process.cwd}|{env['CODEHUB_WORKSPACE_ID']}".encode())
    return 0


async def _terminal(process: FakeProcess) -> int:
    assert process.size == TerminalSize(100, 40)
    await process.say(b"ready\r\n")
    line = (await process.read()).decode().strip()
    assert process.size == TerminalSize(132, 50)
    await process.say(f"{line}, resized\r\n".encode())
    return 5


async def _family(process: FakeProcess) -> int:
    process.alive.add(process.pid + 1)
    await process.say(f"{process.pid} {process.pid + 1}\n".encode())
    await asyncio.Event().wait()
    return 0


async def _foreground(process: FakeProcess) -> int:
    process.files["job"] = b"sleep"
    await asyncio.Event().wait()
    return 0


async def _list_processes(process: FakeProcess) -> int:
    """One that leads, and the job of a terminal, if there is one: pid, name, state, parent, group, session…"""
    await process.say(b"1 (ide) S 0 1 1 0 -1 0 0 0 0 0 10 5 0 0 20 0 1 0 100\n")
    if job := process.files.get("job"):
        await process.say(b"7 (%b) S 6 7 6 1 7 0 0 0 0 0 0 0 0 0 20 0 1 0 200\n" % job)
    return 0


async def _is_alive(process: FakeProcess) -> int:
    return 0 if int(process.argv[4]) in process.alive else 1


async def _until_end(process: FakeProcess) -> int:
    while await process.read():
        pass
    process.files["ended"] = b"ended by itself\n"
    return 0


async def _show(process: FakeProcess) -> int:
    await process.say(process.files["ended"])
    return 0


async def _deaf(process: FakeProcess) -> int:
    await process.say(b"ready\n")
    await asyncio.Event().wait()
    return 0


async def _flood(process: FakeProcess) -> int:
    await process.say(bytes(suite.FLOOD_BYTES))
    process.files["flooded"] = b"x"
    return 0


async def _is_flooded(process: FakeProcess) -> int:
    return 0 if "flooded" in process.files else 1


PROGRAMS: dict[str, Program] = {
    suite.COUNT: _count,
    suite.BOTH: _both,
    suite.SELF_KILL: _killed,
    suite.TERMINATE: _terminated,
    suite.SURROUNDINGS: _surroundings,
    suite.TERMINAL: _terminal,
    suite.FAMILY: _family,
    suite.FOREGROUND: _foreground,
    LIST_COMMAND[2]: _list_processes,
    suite.IS_ALIVE: _is_alive,
    suite.UNTIL_END: _until_end,
    suite.SHOW: _show,
    suite.DEAF: _deaf,
    suite.FLOOD: _flood,
    suite.IS_FLOODED: _is_flooded,
}
