"""Sample whether workspaces work by themselves: notebooks, terminals, processors.

Asked are only workspaces that would be put to sleep otherwise. The cheapest sign comes first and ends the search. Use
of processors is measured between two looks, so a workspace without an earlier one has no answer yet: it stays awake
until the next.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import UUID

import structlog

from codehub.domain.busy import BusySign, BusyWith
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.workspace import WorkspaceView
from codehub.kit.clock import monotonic
from codehub.runtimes.base import Runtime
from codehub.runtimes.process_list import RunningProcess, find_jobs, list_processes
from codehub.services.ide_word import KERNELS_PATH, ask, busy_by_own_word, busy_kernels, printable

log = structlog.get_logger(__name__)

AT_ONCE = 32
SHORTEST_WINDOW = 5.0
LONGEST_WINDOW = 600.0
"""Seconds between two looks at the processors: shorter ones are noise, longer ones were other times."""


@dataclass(frozen=True)
class BusySignals:
    """Which signs count, by the operator's settings."""

    cpu_cores: float = 0.1  # processors used on average, from which on it counts; zero: does not count
    jobs: bool = True  # programs in the foreground of terminals, detached processes
    paths: Mapping[str, str] = field(default_factory=dict)  # image → path of its own word


@dataclass(frozen=True)
class _Look:
    at: float
    cpu_seconds: float
    job: BusySign | None


class BusySampler:
    """Samples busy workspaces. Remembers the last look at each; losing that only delays an answer.

    ``base_path``: where an image serves, below which its paths are; ``window_seconds``: the least time between two
    looks.
    """

    def __init__(
        self,
        runtime: Runtime,
        *,
        signals: BusySignals,
        base_path: Callable[[WorkspaceView], str],
        window_seconds: float = SHORTEST_WINDOW,
    ) -> None:
        self._runtime = runtime
        self._signals = signals
        self._base_path = base_path
        self._window_seconds = window_seconds
        self._looks: dict[UUID, _Look] = {}

    async def sample(self, workspaces: Sequence[WorkspaceView]) -> Mapping[UUID, BusySign | None]:
        """What each of them does; None: nothing. One that is missing has no answer yet."""
        slots = asyncio.Semaphore(AT_ONCE)
        found: dict[UUID, BusySign | None] = {}

        async def sample_one(ws: WorkspaceView) -> None:
            async with slots:
                with suppress(_NotYet):
                    found[ws.id] = await self._sample(ws)

        async with asyncio.TaskGroup() as group:
            for ws in workspaces:
                group.create_task(sample_one(ws))
        self._forget_old()
        return found

    async def _sample(self, ws: WorkspaceView) -> BusySign | None:
        lost = False
        for search in (self._ask_ide, self._look_at_processes):
            try:
                sign = await search(ws)
            except (TimeoutError, OSError, EffectError) as error:
                if isinstance(error, EffectError) and error.failure is FailureCode.CONTAINER_NOT_RUNNING:
                    raise _NotYet from error  # the Observer will notice
                log.info("cannot tell whether it is busy", workspace_id=str(ws.id), error=str(error))
                lost = True
                continue
            if sign is not None:
                return sign
        return BusySign(BusyWith.UNKNOWN) if lost else None

    async def _ask_ide(self, ws: WorkspaceView) -> BusySign | None:
        endpoint = await self._runtime.address(ws.id)
        if endpoint is None:
            return None
        base = self._base_path(ws)
        path = self._signals.paths.get(ws.image_ref)
        if path is not None:
            return busy_by_own_word(await ask(endpoint, base + path.lstrip("/")))
        return busy_kernels(await ask(endpoint, base + KERNELS_PATH))

    async def _look_at_processes(self, ws: WorkspaceView) -> BusySign | None:
        if not self._signals.jobs and not self._signals.cpu_cores:
            return None
        processes = await list_processes(self._runtime, ws.id)
        if processes is None:
            return None
        look = _Look(monotonic(), sum(each.cpu_seconds for each in processes), self._job(processes))
        before = self._looks.get(ws.id)
        if before is not None and look.at - before.at < self._window_seconds:
            if look.job is not None:
                return look.job
            raise _NotYet
        self._looks[ws.id] = look
        if look.job is not None:
            return look.job
        if before is None or look.at - before.at > LONGEST_WINDOW:
            raise _NotYet
        if before.job is not None:  # a shell's loop is seen between two of its commands now and then
            return before.job
        return self._by_processors(before, look)

    def _job(self, processes: Sequence[RunningProcess]) -> BusySign | None:
        jobs = find_jobs(processes)
        return BusySign(BusyWith.JOB, printable(jobs[0].name)) if jobs and self._signals.jobs else None

    def _by_processors(self, before: _Look, now: _Look) -> BusySign | None:
        """Processes that ended take their time along: less than before says nothing, and is asked again."""
        used = now.cpu_seconds - before.cpu_seconds
        if used < 0:
            raise _NotYet
        cores = self._signals.cpu_cores
        return BusySign(BusyWith.CPU) if cores and used >= cores * (now.at - before.at) else None

    def _forget_old(self) -> None:
        oldest = monotonic() - LONGEST_WINDOW
        self._looks = {each: look for each, look in self._looks.items() if look.at >= oldest}


class _NotYet(Exception):
    """Another look is needed before anything can be said."""
