"""Children that belong to a process: kept running, stopped in order, gone when it is gone."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from codehub.server.processes import supervisor as module
from codehub.server.processes.supervisor import ChildFailedError, ChildSpec, Supervisor


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    supervisor = Supervisor()
    yield supervisor
    await supervisor.stop()


def child(directory: Path, name: str, program: str, **options: object) -> ChildSpec:
    """A Python program that is ready once it wrote its process id into a file of its name."""

    async def is_ready() -> bool:
        return recorded(directory, name) is not None

    async def forget() -> None:
        (directory / name).unlink(missing_ok=True)

    preamble = (
        f"import os, pathlib, signal, sys, time\n"
        f"home = pathlib.Path({str(directory)!r})\n"
        f"def ready():\n"
        f"    (home / 'making-{name}').write_text(str(os.getpid()))\n"
        f"    (home / 'making-{name}').rename(home / {name!r})\n"
    )
    return ChildSpec(
        name=name,
        argv=(sys.executable, "-c", preamble + program),
        is_ready=is_ready,
        before_start=forget,
        log_file=directory / f"{name}.log",
        **options,  # type: ignore[arg-type]
    )


def recorded(directory: Path, name: str) -> int | None:
    try:
        return int((directory / name).read_text())
    except FileNotFoundError:
        return None


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


FOREVER = "ready()\nwhile True: signal.pause()"


async def test_a_child_that_dies_comes_back(
    tmp_path: Path, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    await supervisor.start(child(tmp_path, "one", FOREVER))
    for _ in range(3):
        pid = recorded(tmp_path, "one")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(30):
            while recorded(tmp_path, "one") in {pid, None}:
                await asyncio.sleep(0.01)


async def test_children_stop_in_reverse_order(tmp_path: Path, supervisor: Supervisor) -> None:
    note = (
        "def end(*_):\n"
        "    with (home / 'order').open('a') as order: order.write(NAME + '\\n')\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n" + FOREVER
    )
    for name in ("first", "second", "third"):
        await supervisor.start(child(tmp_path, name, f"NAME = {name!r}\n{note}"))
    await supervisor.stop()
    assert (tmp_path / "order").read_text().split() == ["third", "second", "first"]


async def test_a_child_that_does_not_listen_is_killed(tmp_path: Path, supervisor: Supervisor) -> None:
    deaf = child(
        tmp_path,
        "deaf",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + FOREVER,
        stop_signals=((signal.SIGTERM, 0.1),),
    )
    await supervisor.start(deaf)
    pid = recorded(tmp_path, "deaf")
    assert pid is not None
    await supervisor.stop()
    assert not is_alive(pid)


async def test_a_child_that_cannot_start_says_why(tmp_path: Path, supervisor: Supervisor) -> None:
    with pytest.raises(ChildFailedError, match="no such luck") as caught:
        await supervisor.start(child(tmp_path, "unlucky", "sys.exit('no such luck')"))
    assert str(tmp_path / "unlucky.log") in str(caught.value)


async def test_a_child_that_never_answers_is_given_up(tmp_path: Path, supervisor: Supervisor) -> None:
    silent = child(tmp_path, "silent", "while True: signal.pause()", ready_within=0.3)
    with pytest.raises(ChildFailedError, match="did not answer"):
        await supervisor.start(silent)


async def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from pathlib import Path
from tests.integration.server.test_supervisor import FOREVER, child
from codehub.server.processes.supervisor import Supervisor

async def main():
    await Supervisor().start(child(Path({str(tmp_path)!r}), "one", FOREVER))
    print("started", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert parent.stdout is not None
    assert await asyncio.wait_for(parent.stdout.readline(), 60) == b"started\n"
    pid = recorded(tmp_path, "one")
    assert pid is not None
    assert is_alive(pid)
    parent.kill()
    await parent.wait()
    async with asyncio.timeout(30):
        while is_alive(pid):
            await asyncio.sleep(0.01)
