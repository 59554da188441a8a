"""The runtime of the simulated environment: ``FakeRuntime`` with interruptible steps and half-done effects.

The lock of a workspace is the kernel's: it is free when its holder dies, and kept while it is frozen. Storage
jobs are processes of their own; they outlive the replica that began them.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from codehub.archives.keys import ArchivePath
from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import (
    FencingToken,
    OnWait,
    ProgressCallback,
    StorageJob,
    StorageKind,
    StorageProgress,
    StorageResult,
)
from tests.simulation.loop import CURRENT, Process
from tests.simulation.stores import fresh_context
from tests.support.fake_runtime import Call, FakeEngine, FakeRuntime, Moment, Place, _Job

if TYPE_CHECKING:
    from tests.simulation.environment import SimulatedEnvironment

Step = Callable[[int], Awaitable[None]]

NODE_WAIT_SECONDS = 60.0
"""How long a container waits for a node: longer than any operation's time limit."""

HALF = -1
"""The generation of a volume that is not a whole home."""

FAILURES = (
    FailureCode.LOCAL_RUNTIME_ERROR,
    FailureCode.CONTAINER_START_FAILED,
    FailureCode.VOLUME_IN_USE,
)
JOB_FAILURES = (
    FailureCode.STORAGE_JOB_FAILED,
    FailureCode.S3_ACCESS_ERROR,
    FailureCode.NO_SPACE,
    FailureCode.READ_BACK_MISMATCH,
    FailureCode.HOME_NOT_ARCHIVABLE,
)
RESTORE_FAILURES = (
    FailureCode.STORAGE_JOB_FAILED,
    FailureCode.S3_ACCESS_ERROR,
    FailureCode.CHECKSUM_MISMATCH,
)


def generation(files: dict[str, bytes] | None) -> int | None:
    """Which state of the home this is: how often its person had edited it. None: no home."""
    return None if files is None else int(files.get("generation", b"0"))


def home_of(generation: int) -> dict[str, bytes]:
    return {"generation": str(generation).encode()}


class KernelLock:
    """A flock: gone with its holder."""

    def __init__(self) -> None:
        self._held = False
        self._holder: Process | None = None

    async def __aenter__(self) -> None:
        while self._held and not (self._holder is not None and self._holder.dead):
            await asyncio.sleep(0.02)
        self._held, self._holder = True, CURRENT.get()

    async def __aexit__(self, *_: object) -> None:
        self._held, self._holder = False, None


class Backend(FakeEngine):
    check_tokens = True

    def __init__(self, environment: "SimulatedEnvironment") -> None:
        super().__init__(images=("image",))
        self._environment = environment
        self._locks: dict[UUID, KernelLock] = {}
        self.gate = self._gate
        self.hidden: dict[UUID, dict[str, bytes]] = {}  # volumes on a disk that is not mounted

    def lock_of(self, workspace_id: UUID) -> KernelLock:
        return self._locks.setdefault(workspace_id, KernelLock())

    async def pass_gate(self, call: Call) -> None:
        try:
            await super().pass_gate(call)
        except EffectError:
            if call.method == "observe":
                self._environment.guard.looked_in_vain(call.replica)
            raise

    async def _gate(self, call: Call) -> None:
        chaos = self._environment.chaos
        what = f"{call.method} {call.moment}"
        await chaos.gate(what)
        if chaos.strikes("effect"):
            code = chaos.random.choice(FAILURES)
            chaos.say(f"{call.replica}: {what} fails with {code}")
            raise EffectError(code, f"{what} failed")
        if call.workspace_id is not None and chaos.strikes("hang"):
            chaos.say(f"{call.replica}: {what} hangs")
            await asyncio.sleep(10_000)


class Runtime(FakeRuntime):
    """One replica's hands."""

    def __init__(self, environment: "SimulatedEnvironment", replica: str) -> None:
        super().__init__(environment.engine, replica=replica)
        self._environment = environment
        self._engine: Backend = environment.engine

    async def start(
        self, workspace_id: UUID, *, token: FencingToken, on_wait: OnWait = None, **what: Any
    ) -> None:
        await self._wait_to_be_scheduled(workspace_id, token, on_wait)
        await super().start(workspace_id, token=token, **what)

    async def run_storage_job(
        self,
        job: StorageJob,
        *,
        token: FencingToken,
        on_progress: ProgressCallback,
        on_wait: OnWait = None,
    ) -> StorageResult:
        await self._wait_to_be_scheduled(job.workspace_id, token, on_wait)
        return await super().run_storage_job(job, token=token, on_progress=on_progress)

    async def _wait_to_be_scheduled(self, workspace_id: UUID, token: FencingToken, on_wait: OnWait) -> None:
        """As a pod does, without the workspace's lock; whoever was outranked meanwhile is refused after it."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + NODE_WAIT_SECONDS
        assert on_wait is not None
        if self._engine.no_node is None:
            return
        self._environment.say(f"{self._replica}: {workspace_id} {token} waits for a node")
        while (reason := self._engine.no_node) is not None:
            if loop.time() > ends_at:
                raise EffectError(FailureCode.UNSCHEDULABLE, "no node took it", scheduler=reason)
            self._environment.guard.waits(workspace_id, token)
            await on_wait(reason)
            await asyncio.sleep(1.0)
        self._environment.say(f"{self._replica}: {workspace_id} {token} has a node")
        await on_wait(None)

    async def _wait_for_node(self, on_wait: OnWait) -> None:
        """Done before, without the lock."""

    async def delete_volume(self, workspace_id: UUID, *, token: FencingToken) -> None:
        if self._environment.chaos.strikes("half"):
            async with self._acting("delete_volume", workspace_id, token) as place:
                if place.volume is not None:
                    place.volume = home_of(HALF)
            raise EffectError(FailureCode.LOCAL_RUNTIME_ERROR, "only half of the volume is gone")
        await super().delete_volume(workspace_id, token=token)

    @asynccontextmanager
    async def _acting(
        self, method: str, workspace_id: UUID, token: FencingToken | None
    ) -> AsyncIterator[Place]:
        place = self._engine.place(workspace_id)
        await self._pass(method, Moment.BEFORE, workspace_id, token)
        async with self._engine.lock_of(workspace_id):
            if token is not None:
                if token < place.highest and self._engine.check_tokens:
                    raise EffectError(
                        FailureCode.STALE_TOKEN,
                        "a newer actor has taken this workspace over",
                        highest=[place.highest.op_seq, place.highest.epoch],
                    )
                self._environment.guard.acts(workspace_id, token, method)
                place.highest = max(token, place.highest)
            before = generation(place.volume)
            self._environment.say(f"{self._replica}: {method} {workspace_id} {token}")
            try:
                yield place
            finally:
                self._environment.guard.effect(workspace_id, method, before=before)
        await self._pass(method, Moment.AFTER, workspace_id, token)

    def _begin_job(self, place: Place, job: StorageJob, token: FencingToken) -> _Job:
        progress: asyncio.Queue[StorageProgress | None] = asyncio.Queue()
        work = _run_job(self._environment, place, job, progress)
        task = asyncio.get_running_loop().create_task(work, context=fresh_context())
        task.add_done_callback(lambda _: progress.put_nowait(None))
        return _Job(token=token, task=task, progress=progress)


async def _run_job(
    environment: "SimulatedEnvironment",
    place: Place,
    job: StorageJob,
    progress: "asyncio.Queue[StorageProgress | None]",
) -> StorageResult:
    """A storage job. It ends, fails or is killed between any two steps, and leaves what it has done."""

    async def step(done: int) -> None:
        progress.put_nowait(StorageProgress(done_bytes=done, total_bytes=3))
        await asyncio.sleep(environment.random.uniform(0.05, 0.4))
        if environment.archives.away:
            raise EffectError(FailureCode.S3_ACCESS_ERROR, "the store does not answer")
        if environment.chaos.strikes("job"):
            codes = JOB_FAILURES if job.kind is StorageKind.ARCHIVE else RESTORE_FAILURES
            raise EffectError(environment.chaos.random.choice(codes), "the job failed")
        if environment.chaos.strikes("hang"):
            await asyncio.sleep(10_000)

    await step(0)
    if job.kind is StorageKind.RESTORE:
        return await _restore(environment, place, job, step)
    return await _archive(environment, place, job, step)


async def _archive(
    environment: "SimulatedEnvironment", place: Place, job: StorageJob, step: Step
) -> StorageResult:
    for key in environment.archives.committed(job.workspace_id):
        if key.startswith(f"{job.workspace_id}/{job.op_id}/"):
            return StorageResult(archive_key=key, bytes=1, files=1, sha256=checksum(job.workspace_id, key))
    if place.volume is None:
        raise EffectError(FailureCode.VOLUME_MISSING, "there is no volume to archive")
    files = dict(place.volume)
    attempt = f"{environment.random.getrandbits(128):032x}"
    path = ArchivePath(job.workspace_id, job.op_id, attempt)
    environment.archives.put(path.key, files)
    await step(1)
    await step(2)  # reads it back
    environment.archives.put_meta(path.key)
    environment.say(f"job archived generation {generation(files)} of {job.workspace_id} as {path.key}")
    await step(3)
    return StorageResult(archive_key=path.key, bytes=1, files=1, sha256=checksum(job.workspace_id, path.key))


def checksum(workspace_id: UUID, key: str) -> str:
    """Every archive has its own, and it tells whose it is."""
    return f"sum of {workspace_id} {key}"


async def _restore(
    environment: "SimulatedEnvironment", place: Place, job: StorageJob, step: Step
) -> StorageResult:
    assert job.archive_key is not None
    stored = environment.archives.objects.get(job.archive_key)
    if stored is None or stored.committed_at is None:
        raise EffectError(FailureCode.ARCHIVE_NOT_FOUND, "no such archive", archive_key=job.archive_key)
    if job.archive_sha256 != checksum(job.archive_source_id or job.workspace_id, job.archive_key):
        raise EffectError(FailureCode.ARCHIVE_MISMATCH, "not ours", archive_key=job.archive_key)
    await step(1)
    if place.volume is None:
        place.volume = home_of(HALF)  # the volume exists before its content does
        environment.guard.effect(job.workspace_id, "restore begins", before=None)
    await step(2)
    before = generation(place.volume)
    place.volume = dict(stored.files)
    environment.guard.effect(job.workspace_id, "restored", before=before)
    environment.say(f"job restored generation {generation(stored.files)} of {job.workspace_id}")
    await step(3)
    return StorageResult(archive_key=job.archive_key, bytes=1, files=1)
