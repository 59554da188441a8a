"""Supervise child processes: start, restart when they die, stop in order.

Used for the embedded PostgreSQL and Redis and for the proxy processes. Invariants:

* a child that dies unasked is restarted, after a pause that doubles from half a second to half a minute and
  starts over once a child has lived for a minute;
* ``stop()`` ends the children in the reverse order of their start and returns when all are gone;
* children die with this process, however it dies: the kernel sends each its stop signal (``launch.py``).

Children get a session of their own: Ctrl-C in a terminal reaches every process of the foreground group,
and the database must not end before the server has closed its sessions.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import structlog

from codehub.domain.errors import CodeHubError
from codehub.kit.clock import monotonic

log = structlog.get_logger(__name__)

LAUNCHER = Path(__file__).with_name("launch.py")
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
LIVED_LONG_ENOUGH = 60.0
READY_CHECK_EVERY = 0.05
LARGEST_LOG = 10 * 1024 * 1024


class ChildFailedError(CodeHubError):
    """A child process did not start."""

    code = "child_failed"


@dataclass(frozen=True)
class RunAs:
    """The user to run a child of root as. ``may_search``: see ``launch.py``."""

    uid: int
    gid: int
    may_search: bool


@dataclass(frozen=True)
class ChildSpec:
    """A program to keep running.

    ``is_ready`` is polled until it returns True; ``before_start`` removes what a killed process left.
    ``stop_signals`` are sent in turn, each with its grace in seconds; SIGKILL is always the last.
    Without ``log_file`` it inherits our output. ``pass_fds``: sockets it serves, with the same numbers.
    """

    name: str
    argv: tuple[str, ...]
    is_ready: Callable[[], Awaitable[bool]]
    before_start: Callable[[], Awaitable[None]] | None = None
    stop_signals: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 10.0),)
    ready_within: float = 60.0
    environ: Mapping[str, str] | None = None
    log_file: Path | None = None
    pass_fds: tuple[int, ...] = ()
    run_as: RunAs | None = None


@dataclass
class _RunningChild:
    spec: ChildSpec
    process: asyncio.subprocess.Process
    started_at: float
    keeper: asyncio.Task[None] | None = field(default=None)


class Supervisor:
    """Keeps child processes running until ``stop``."""

    def __init__(self) -> None:
        self._children: list[_RunningChild] = []

    async def start(self, spec: ChildSpec) -> None:
        """Start a child and wait until it is ready. From then on it is kept running."""
        process = await self._spawn(spec)
        child = _RunningChild(spec=spec, process=process, started_at=monotonic())
        self._children.append(child)  # before waiting: ``stop`` also ends a cancelled start
        await self._wait_until_ready(child)
        child.keeper = asyncio.create_task(self._keep(child), name=f"keep {spec.name}")

    async def stop(self, *, together: bool = False) -> None:
        """End all children, the last one first or ``together``; returns when all are gone."""
        if together:
            await asyncio.gather(*(self._stop(child) for child in self._children))
        for child in reversed(self._children):
            await self._stop(child)
        self._children.clear()

    async def _stop(self, child: _RunningChild) -> None:
        if child.keeper is not None:
            child.keeper.cancel()
            await asyncio.gather(child.keeper, return_exceptions=True)
        await _end(child)

    async def _keep(self, child: _RunningChild) -> None:
        pause = FIRST_PAUSE
        while True:
            code = await child.process.wait()
            if monotonic() - child.started_at > LIVED_LONG_ENOUGH:
                pause = FIRST_PAUSE
            log.warning("child died", child=child.spec.name, exit_code=code, restart_in_seconds=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
            try:
                child.process = await self._spawn(child.spec)
                child.started_at = monotonic()
                await self._wait_until_ready(child)
            except (ChildFailedError, OSError) as error:
                log.error("child did not come back", child=child.spec.name, error=str(error))
                await _end(child)
            else:
                log.info("child is back", child=child.spec.name)

    async def _spawn(self, spec: ChildSpec) -> asyncio.subprocess.Process:
        if spec.before_start is not None:
            await spec.before_start()
        with contextlib.ExitStack() as stack:
            output: int | None = None  # inherit
            if spec.log_file is not None:
                output = stack.enter_context(_open_log(spec.log_file)).fileno()
            return await asyncio.create_subprocess_exec(
                *launch_argv(
                    spec.argv, run_as=spec.run_as, stop_signal=spec.stop_signals[0][0], parent=os.getpid()
                ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(spec.environ) if spec.environ is not None else None,
                pass_fds=spec.pass_fds,
                start_new_session=True,
            )

    async def _wait_until_ready(self, child: _RunningChild) -> None:
        spec = child.spec
        try:
            async with asyncio.timeout(spec.ready_within):
                while not await spec.is_ready():
                    if child.process.returncode is not None:
                        raise ChildFailedError(
                            f"{spec.name} ended at once (exit code {child.process.returncode}).{_tail(spec)}"
                        )
                    await asyncio.sleep(READY_CHECK_EVERY)
        except TimeoutError:
            raise ChildFailedError(
                f"{spec.name} did not answer within {spec.ready_within:g} seconds.{_tail(spec)}"
            ) from None


def launch_argv(
    argv: tuple[str, ...],
    *,
    run_as: RunAs | None = None,
    stop_signal: signal.Signals | None = None,
    parent: int | None = None,
) -> list[str]:
    """The command line that starts ``argv`` through ``launch.py``."""
    options: list[str] = []
    if run_as is not None:
        options += ["--as", str(run_as.uid), str(run_as.gid)]
        options += ["--may-search"] if run_as.may_search else []
    if stop_signal is not None and parent is not None:
        options += ["--dies-with", str(parent), str(int(stop_signal))]
    return [sys.executable, "-I", "-S", str(LAUNCHER), *options, "--", *argv]


async def _end(child: _RunningChild) -> None:
    for stop_signal, grace in (*child.spec.stop_signals, (signal.SIGKILL, 10.0)):
        if child.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.process.send_signal(stop_signal)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.process.wait(), grace)


def _open_log(path: Path) -> IO[bytes]:
    """Open the log to append. A large one is renamed first; one older file is kept."""
    with contextlib.suppress(FileNotFoundError):
        if path.stat().st_size > LARGEST_LOG:
            path.replace(path.with_name(path.name + ".1"))
    return path.open("ab")


def _tail(spec: ChildSpec, *, lines: int = 5) -> str:
    """The last lines of its log, for the error message."""
    if spec.log_file is None:
        return ""
    said = spec.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]
    return "".join(f"\n    {line}" for line in said) + f"\nMore in {spec.log_file}."
