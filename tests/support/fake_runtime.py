"""A runtime in memory, for simulations: one ``FakeEngine`` for all, each replica has a ``FakeRuntime``.

Keeps the whole contract (it passes ``tests/contract``), tokens included, with asyncio alone: no threads,
no clock but the loop's, nothing random, so a seeded loop with virtual time replays it exactly.

Faults. Every call passes a **gate** twice: ``BEFORE`` the effect and ``AFTER`` it, still inside the call.
A simulation sets ``engine.gate`` to a coroutine function that may raise, sleep, or never return there; tests
of one thing use ``engine.fail_next``. ``engine.away`` makes the engine unreachable as a whole.
``FakeRuntime.crash`` is kill -9 of that replica: its calls never return and clean nothing up, while
storage jobs, which are processes of their own, go on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from codehub.domain.endings import Ending
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import (
    Address,
    FencingToken,
    LeftVolume,
    Observation,
    OnWait,
    ProgressCallback,
    ResourceLimits,
    Sighting,
    StorageJob,
    StorageKind,
    StorageProgress,
    StorageResult,
)
from codehub.runtimes.exec_stream import ExecStream, TerminalSize
from tests.support.fake_exec import FakeExec, FakeProcess, Program, cat, not_running, true


class Moment(StrEnum):
    BEFORE = "before"  # nothing has happened yet
    AFTER = "after"  # it has happened; the caller does not know yet


class Behaviour(StrEnum):
    """How a storage job goes."""

    HAPPY = "happy"
    FAIL = "fail"
    CRASH = "crash"
    SLOW = "slow"


@dataclass(frozen=True)
class Call:
    """One passage of a gate, as ``engine.history`` keeps it."""

    method: str
    moment: Moment
    workspace_id: UUID | None = None
    token: FencingToken | None = None
    replica: str = ""


RequestMiddleware = Callable[[Call], Awaitable[None]]
_NOBODY = FencingToken(-1, -1)


@dataclass
class Archive:
    """An object in the fake store; debris until committed."""

    files: dict[str, bytes]
    committed: bool = False


@dataclass
class _Job:
    token: FencingToken
    task: "asyncio.Task[StorageResult]"
    progress: "asyncio.Queue[StorageProgress | None]"


@dataclass
class Place:
    """Everything that exists of one workspace."""

    volume: dict[str, bytes] | None = None  # the home: name → content
    container: ContainerState = ContainerState.NONE
    address: Address | None = None
    output: list[bytes] = field(default_factory=list)
    highest: FencingToken = _NOBODY
    job: _Job | None = None
    unreadable: bool = False  # an observation cannot tell
    ending: Ending | None = None  # what is known of a dead container
    stranger: str | None = None  # who else uses the home
    behaviour: Behaviour = Behaviour.HAPPY
    execs: list[FakeExec] = field(default_factory=list)
    processes: set[int] = field(default_factory=set)  # of execs, by pid
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # output or container


class FakeEngine:
    """The engine all replicas act on: containers, volumes, jobs."""

    def __init__(
        self, *, images: Collection[str] = ("fake",), job_steps: int = 3, step_seconds: float = 0.01
    ) -> None:
        self.images = list(images)
        self.failing_images: set[str] = set()
        self.job_steps = job_steps
        self.step_seconds = step_seconds
        self.places: dict[UUID, Place] = {}
        self.archives: dict[str, Archive] = {}
        self.away = False
        self.no_node: str | None = None  # why no node takes a container
        self.left_volumes: list[LeftVolume] = []
        self.gate: RequestMiddleware | None = None
        self.history: list[Call] = []
        self.programs: dict[str, Program] = {"cat": cat, "true": true}  # by name; of a shell by script
        self._next_port = 20000
        self._next_pid = 100
        self._failures: list[tuple[str, Moment, Exception]] = []

    def place(self, workspace_id: UUID) -> Place:
        return self.places.setdefault(workspace_id, Place())

    def fail_next(self, method: str, error: Exception, *, moment: Moment = Moment.BEFORE) -> None:
        """The next call of ``method`` raises ``error`` at ``moment``."""
        self._failures.append((method, moment, error))

    def kill_container(self, workspace_id: UUID) -> None:
        """The container dies by itself."""
        place = self.place(workspace_id)
        if place.container is ContainerState.RUNNING:
            place.container, place.address = ContainerState.DEAD, None
            _end_execs(place)
            place.changed.set()

    async def pass_gate(self, call: Call) -> None:
        self.history.append(call)
        if self.away:
            raise EffectError(FailureCode.LOCAL_RUNTIME_ERROR, "the engine is away")
        for planned in self._failures:
            if planned[:2] == (call.method, call.moment):
                self._failures.remove(planned)
                raise planned[2]
        if self.gate is not None:
            await self.gate(call)

    def go_away(self) -> None:
        """The engine is away from now on, and open streams are cut."""
        self.away = True
        for place in self.places.values():
            for stream in place.execs:
                stream.lose(EffectError(FailureCode.LOCAL_RUNTIME_ERROR, "the engine is away"))

    def new_pid(self) -> int:
        self._next_pid += 10
        return self._next_pid

    def new_address(self) -> Address:
        self._next_port += 1
        return Address("127.0.0.1", self._next_port)


class FakeRuntime:
    """One replica's hands on the engine."""

    def __init__(self, engine: FakeEngine, *, replica: str = "") -> None:
        self._engine = engine
        self._replica = replica
        self._crashed = False

    @property
    def name(self) -> str:
        return "fake"

    def crash(self) -> None:
        """This replica is dead: whatever it was doing, it neither goes on nor cleans up."""
        self._crashed = True

    async def observe(self, ids: Collection[UUID] | None = None) -> Observation:
        wanted = None if ids is None else frozenset(ids)
        async with self._gated("observe"):
            places = {
                workspace_id: place
                for workspace_id, place in self._engine.places.items()
                if wanted is None or workspace_id in wanted
            }
            seen = {workspace_id: _sight(place) for workspace_id, place in places.items()}
            dark = frozenset(workspace_id for workspace_id, place in places.items() if place.unreadable)
        present = {key: value for key, value in seen.items() if value != Sighting() and key not in dark}
        return Observation(sightings=present, unreadable=dark)

    async def provision(self, workspace_id: UUID, *, token: FencingToken, image_ref: str = "") -> None:
        async with self._acting("provision", workspace_id, token) as place:
            if place.volume is None:
                place.volume = {}

    async def start(
        self,
        workspace_id: UUID,
        *,
        token: FencingToken,
        image_ref: str,
        env: Mapping[str, str],
        limits: ResourceLimits,
        on_wait: OnWait = None,
    ) -> None:
        if image_ref not in self._engine.images:
            raise EffectError(FailureCode.IMAGE_UNKNOWN, f"no image is called {image_ref!r}")
        async with self._acting("start", workspace_id, token) as place:
            await _end_outranked_job(place, token)
            if place.volume is None:
                raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to start on")
            if place.container is ContainerState.RUNNING:
                return
            _require_no_stranger(place)
            place.container, place.address = ContainerState.NONE, None  # sweep
            await self._wait_for_node(on_wait)
            if image_ref in self._engine.failing_images:
                place.output.append(b"this command is wrong\n")
                raise EffectError(
                    FailureCode.CONTAINER_START_FAILED,
                    "the command ended at once",
                    output=["this command is wrong"],
                )
            place.container, place.address = ContainerState.RUNNING, self._engine.new_address()
            place.output.append(b"it listens\n")
            place.changed.set()

    async def stop(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting("stop", workspace_id, token) as place:
            _remove_container(place)

    async def remove_orphan_container(self, workspace_id: UUID) -> None:
        async with self._acting("remove_orphan_container", workspace_id, None) as place:
            _remove_container(place)

    async def delete_volume(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting("delete_volume", workspace_id, token) as place:
            await _end_outranked_job(place, token)
            if place.container is not ContainerState.NONE:
                raise EffectError(FailureCode.VOLUME_IN_USE, "a container holds the volume")
            _require_no_stranger(place)
            place.volume = None

    async def run_storage_job(
        self,
        job: StorageJob,
        *,
        token: FencingToken,
        on_progress: ProgressCallback,
        on_wait: OnWait = None,
    ) -> StorageResult:
        async with self._acting("run_storage_job", job.workspace_id, token) as place:
            if place.container is ContainerState.RUNNING:
                raise EffectError(FailureCode.VOLUME_IN_USE, "the workspace is running")
            if job.kind is StorageKind.ARCHIVE and place.volume is None:
                raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to archive")
            _require_no_stranger(place)
            await _end_job(place)
            await self._wait_for_node(on_wait)
            running = place.job = self._begin_job(place, job, token)
        try:
            while (progress := await running.progress.get()) is not None:
                await on_progress(progress)
            result = await asyncio.shield(running.task)
        except asyncio.CancelledError:
            if running.task.cancelled() and place.highest > token:
                raise _stale(token, place.highest) from None
            if running.task.cancelled() and not _is_cancelling():
                raise EffectError(FailureCode.STORAGE_JOB_FAILED, "the job was killed") from None
            raise
        finally:
            if not self._crashed:
                running.task.cancel()
                await asyncio.wait([running.task])
                if place.job is running:
                    place.job = None
        await self._pass("run_storage_job_done", Moment.AFTER, job.workspace_id, token)
        return result

    async def kill_storage_job(self, workspace_id: UUID, *, token: FencingToken) -> None:
        async with self._acting("kill_storage_job", workspace_id, token) as place:
            await _end_job(place)

    async def address(self, workspace_id: UUID) -> Address | None:
        return self._engine.place(workspace_id).address

    async def ending(self, workspace_id: UUID) -> Ending | None:
        place = self._engine.place(workspace_id)
        return place.ending if place.container is ContainerState.DEAD else None

    async def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]:
        place = self._engine.place(workspace_id)
        sent = 0
        while True:
            place.changed.clear()
            while sent < len(place.output):
                sent += 1
                yield place.output[sent - 1]
            if not follow or place.container is not ContainerState.RUNNING:
                return
            await place.changed.wait()

    async def exec(
        self,
        workspace_id: UUID,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        tty: TerminalSize | None = None,
    ) -> ExecStream:
        await self._pass("exec", Moment.BEFORE, workspace_id)
        place = self._engine.place(workspace_id)
        if place.container is not ContainerState.RUNNING or place.volume is None:
            raise not_running()
        process = FakeProcess(
            argv=tuple(argv),
            env={**(env or {}), "CODEHUB_WORKSPACE_ID": str(workspace_id)},
            cwd=cwd or "/home",
            size=tty,
            pid=self._engine.new_pid(),
            files=place.volume,
            alive=place.processes,
        )
        name = argv[2] if argv[0] == "sh" else argv[0]
        stream = FakeExec(process, self._engine.programs.get(name))
        place.execs.append(stream)
        return stream

    async def images(self) -> list[str]:
        return list(self._engine.images)

    async def left_volumes(self) -> list[LeftVolume]:
        return list(self._engine.left_volumes)

    async def probe(self) -> None:
        await self._pass("probe", Moment.BEFORE)

    async def close(self) -> None:
        return

    async def _wait_for_node(self, on_wait: OnWait) -> None:
        if self._engine.no_node is None:
            return
        while self._engine.no_node is not None:
            if on_wait is not None:
                await on_wait(self._engine.no_node)
            await asyncio.sleep(self._engine.step_seconds)
        if on_wait is not None:
            await on_wait(None)

    def _begin_job(self, place: Place, job: StorageJob, token: FencingToken) -> _Job:
        progress: asyncio.Queue[StorageProgress | None] = asyncio.Queue()
        task = asyncio.create_task(_run_job(self._engine, place, job, progress))
        task.add_done_callback(lambda _: progress.put_nowait(None))
        return _Job(token=token, task=task, progress=progress)

    @asynccontextmanager
    async def _acting(
        self, method: str, workspace_id: UUID, token: FencingToken | None
    ) -> AsyncIterator[Place]:
        """The workspace's lock, then the token, then the effect: in the order every runtime has."""
        place = self._engine.place(workspace_id)
        await self._pass(method, Moment.BEFORE, workspace_id, token)
        async with place.lock:
            if token is not None:
                if token < place.highest:
                    raise _stale(token, place.highest)
                place.highest = token
            yield place
        await self._pass(method, Moment.AFTER, workspace_id, token)

    @asynccontextmanager
    async def _gated(self, method: str) -> AsyncIterator[None]:
        await self._pass(method, Moment.BEFORE)
        yield
        await self._pass(method, Moment.AFTER)

    async def _pass(
        self, method: str, moment: Moment, workspace_id: UUID | None = None, token: FencingToken | None = None
    ) -> None:
        if self._crashed:
            await asyncio.Event().wait()  # a dead process never gets an answer
        await self._engine.pass_gate(Call(method, moment, workspace_id, token, self._replica))
        if self._crashed:
            await asyncio.Event().wait()


async def _run_job(
    engine: FakeEngine, place: Place, job: StorageJob, progress: "asyncio.Queue[StorageProgress | None]"
) -> StorageResult:
    """The job's own process: what it leaves half done when it is killed stays half done."""
    prefix = f"{job.workspace_id}/{job.op_id}/"
    progress.put_nowait(StorageProgress(done_bytes=0, total_bytes=engine.job_steps))
    match place.behaviour:
        case Behaviour.FAIL:
            raise EffectError(FailureCode.CHECKSUM_MISMATCH, "damaged", detail="bit flipped")
        case Behaviour.CRASH:
            raise EffectError(FailureCode.STORAGE_JOB_FAILED, "ended with 7 and no result", exit_code=7)
        case Behaviour.SLOW:
            await asyncio.Event().wait()
        case Behaviour.HAPPY:
            pass
    if job.kind is StorageKind.RESTORE:
        archive = engine.archives.get(job.archive_key or "")
        if archive is None or not archive.committed:
            raise EffectError(FailureCode.ARCHIVE_NOT_FOUND, "no such archive", archive_key=job.archive_key)
        await _steps(engine, progress)
        place.volume = dict(archive.files)  # the swap: whole or not at all
        return _result(job.archive_key or "", archive)
    attempts = [key for key in engine.archives if key.startswith(prefix)]
    for key in attempts:
        if engine.archives[key].committed:
            return _result(key, engine.archives[key])
    key = f"{prefix}{len(attempts) + 1}/home.tar.zst"
    archive = engine.archives[key] = Archive(files=dict(place.volume or {}))
    await _steps(engine, progress)
    archive.committed = True
    return _result(key, archive)


async def _steps(engine: FakeEngine, progress: "asyncio.Queue[StorageProgress | None]") -> None:
    for step in range(engine.job_steps):
        await asyncio.sleep(engine.step_seconds)
        progress.put_nowait(StorageProgress(done_bytes=step + 1, total_bytes=engine.job_steps))


async def _end_outranked_job(place: Place, token: FencingToken) -> None:
    if place.job is None or place.job.task.done():
        return
    if place.job.token >= token:
        raise EffectError(FailureCode.VOLUME_IN_USE, "a storage job is using the volume")
    await _end_job(place)


async def _end_job(place: Place) -> None:
    if place.job is not None:
        place.job.task.cancel()
        await asyncio.wait([place.job.task])
        place.job = None


def _require_no_stranger(place: Place) -> None:
    if place.stranger is not None:
        raise EffectError(
            FailureCode.VOLUME_USED_ELSEWHERE,
            f"{place.stranger} uses the volume too",
            expected="no other container on the volume",
            actual=[place.stranger],
        )


def _end_execs(place: Place) -> None:
    while place.execs:
        place.execs.pop().kill(9)


def _remove_container(place: Place) -> None:
    place.container, place.address = ContainerState.NONE, None
    _end_execs(place)
    place.changed.set()


def _sight(place: Place) -> Sighting:
    return Sighting(
        container=place.container,
        volume=place.volume is not None,
        address=place.address,
        storage_job=place.job is not None and not place.job.task.done(),
    )


def _result(key: str, archive: Archive) -> StorageResult:
    size = sum(len(content) for content in archive.files.values())
    return StorageResult(archive_key=key, bytes=size, files=len(archive.files))


def _stale(token: FencingToken, highest: FencingToken) -> EffectError:
    return EffectError(
        FailureCode.STALE_TOKEN,
        "a newer actor has taken this workspace over",
        token=[token.op_seq, token.epoch],
        highest=[highest.op_seq, highest.epoch],
    )


def _is_cancelling() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
