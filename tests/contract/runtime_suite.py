"""The promises of ``runtimes/base.Runtime``, as tests that every implementation runs.

A test module of one implementation subclasses ``RuntimeContract`` and provides a fixture ``environment``: how to
open runtimes on its engine, and how to do behind their back what people and kernels do.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import (
    FencingToken,
    ResourceLimits,
    Runtime,
    Sighting,
    StorageJob,
    StorageKind,
    StorageProgress,
    StorageResult,
)
from tests.support.waiting import until

FIRST, SECOND, THIRD = FencingToken(1, 1), FencingToken(2, 1), FencingToken(3, 1)


class RuntimeEnvironment(Protocol):
    """One engine with two installations on it, and hands that reach around the runtime."""

    image: str  # serves on its port
    failing_image: str  # says "this command is wrong" and ends

    async def open(self, installation: str = "one") -> Runtime:
        """A runtime as a freshly started CodeHub has it. Any number at a time; closed by the environment."""

    async def kill_container(self, workspace_id: UUID) -> None:
        """The container dies without anybody having asked."""

    async def kill_job(self, workspace_id: UUID) -> None:
        """The running storage job dies without anybody having asked."""

    async def write(self, workspace_id: UUID, name: str, content: str) -> None: ...

    async def read(self, workspace_id: UUID, name: str) -> str | None: ...

    async def let_jobs(self, workspace_id: UUID, behaviour: str) -> None:
        """``happy``, ``fail`` (CHECKSUM_MISMATCH), ``crash`` (no result), ``slow`` (never ends)."""

    async def break_engine(self) -> None:
        """From now on the engine cannot be looked at."""


async def start(
    runtime: Runtime,
    workspace_id: UUID,
    *,
    token: FencingToken = FIRST,
    image: str,
    env: dict[str, str] | None = None,
) -> None:
    await runtime.start(workspace_id, token=token, image_ref=image, env=env or {}, limits=ResourceLimits())


async def sight(runtime: Runtime, workspace_id: UUID) -> Sighting:
    """What a look at everything and a look at this one agree on."""
    everything = await runtime.observe()
    alone = (await runtime.observe([workspace_id])).sightings.get(workspace_id, Sighting())
    if everything.sightings.get(workspace_id, Sighting()) != alone:  # it changed between the two looks
        everything = await runtime.observe()
    assert workspace_id not in everything.unreadable
    assert everything.sightings.get(workspace_id, Sighting()) == alone
    return alone


async def failure_of(call: Awaitable[object]) -> FailureCode:
    with pytest.raises(EffectError) as caught:
        await call
    return caught.value.failure


async def ignore(progress: StorageProgress) -> None:
    pass


def job_of(workspace_id: UUID, *, restore: str | None = None, op_id: UUID | None = None) -> StorageJob:
    kind = StorageKind.ARCHIVE if restore is None else StorageKind.RESTORE
    return StorageJob(kind=kind, workspace_id=workspace_id, op_id=op_id or uuid4(), archive_key=restore)


async def running_job(
    runtime: Runtime, workspace_id: UUID, *, token: FencingToken, seconds: float = 20.0
) -> "asyncio.Task[StorageResult]":
    """A storage job that was seen to run, and that has said something."""
    spoke = asyncio.Event()

    async def note(progress: StorageProgress) -> None:
        spoke.set()

    task = asyncio.create_task(runtime.run_storage_job(job_of(workspace_id), token=token, on_progress=note))

    async def is_seen() -> bool:
        assert not task.done(), task
        return spoke.is_set() and (await runtime.observe([workspace_id])).sightings[workspace_id].storage_job

    await until(is_seen, what="storage job", seconds=seconds)
    return task


@pytest.fixture
async def runtime(environment: RuntimeEnvironment) -> Runtime:
    return await environment.open()


@pytest.fixture
def ws() -> UUID:
    return uuid4()


class VolumeContract:
    async def test_nothing_exists_of_an_unknown_workspace(self, runtime: Runtime, ws: UUID) -> None:
        assert await sight(runtime, ws) == Sighting()
        assert await runtime.address(ws) is None

    async def test_provision_makes_a_volume_and_leaves_an_existing_one_alone(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.write(ws, "notes.txt", "mine")
        await runtime.provision(ws, token=FIRST)
        assert await sight(runtime, ws) == Sighting(volume=True)
        assert await environment.read(ws, "notes.txt") == "mine"

    async def test_delete_volume_twice(self, runtime: Runtime, ws: UUID) -> None:
        await runtime.provision(ws, token=FIRST)
        await runtime.delete_volume(ws, token=FIRST)
        await runtime.delete_volume(ws, token=FIRST)
        assert await sight(runtime, ws) == Sighting()

    async def test_a_deleted_home_does_not_come_back(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.write(ws, "notes.txt", "mine")
        await runtime.delete_volume(ws, token=FIRST)
        await runtime.provision(ws, token=SECOND)
        assert await environment.read(ws, "notes.txt") is None

    async def test_delete_volume_refuses_while_a_container_holds_it(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        assert await failure_of(runtime.delete_volume(ws, token=SECOND)) is FailureCode.VOLUME_IN_USE
        await environment.kill_container(ws)  # a dead one holds it too: containers go before their volumes
        assert await failure_of(runtime.delete_volume(ws, token=SECOND)) is FailureCode.VOLUME_IN_USE
        await runtime.stop(ws, token=SECOND)
        await runtime.delete_volume(ws, token=SECOND)
        assert await sight(runtime, ws) == Sighting()


class ContainerContract:
    async def test_start_runs_it_and_tells_where(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        seen = await sight(runtime, ws)
        assert (seen.container, seen.volume) == (ContainerState.RUNNING, True)
        assert seen.address is not None
        assert await runtime.address(ws) == seen.address

    async def test_start_twice_is_one_container(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        before = await sight(runtime, ws)
        await start(runtime, ws, image=environment.image)
        assert await sight(runtime, ws) == before

    async def test_start_refuses_without_volume(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        assert await failure_of(start(runtime, ws, image=environment.image)) is FailureCode.VOLUME_MISSING
        assert await sight(runtime, ws) == Sighting()  # and makes none by itself

    async def test_start_refuses_an_unknown_image(self, runtime: Runtime, ws: UUID) -> None:
        await runtime.provision(ws, token=FIRST)
        assert await failure_of(start(runtime, ws, image="nobody-has-this")) is FailureCode.IMAGE_UNKNOWN

    async def test_a_command_that_fails_at_once_is_told_in_its_own_words(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        with pytest.raises(EffectError) as caught:
            await start(runtime, ws, image=environment.failing_image)
        assert caught.value.failure is FailureCode.CONTAINER_START_FAILED
        assert "this command is wrong" in str(caught.value.context)
        assert await sight(runtime, ws) == Sighting(volume=True)

    async def test_stop_twice_leaves_the_volume(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.write(ws, "notes.txt", "mine")
        await start(runtime, ws, image=environment.image)
        await runtime.stop(ws, token=SECOND)
        await runtime.stop(ws, token=SECOND)
        assert await sight(runtime, ws) == Sighting(volume=True)
        assert await runtime.address(ws) is None
        assert await environment.read(ws, "notes.txt") == "mine"

    async def test_stop_of_nothing(self, runtime: Runtime, ws: UUID) -> None:
        await runtime.stop(ws, token=FIRST)
        assert await sight(runtime, ws) == Sighting()

    async def test_a_killed_container_is_seen_dead_and_swept_by_start(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        await environment.kill_container(ws)
        assert await sight(runtime, ws) == Sighting(container=ContainerState.DEAD, volume=True)
        assert await runtime.address(ws) is None
        await start(runtime, ws, image=environment.image)
        assert (await sight(runtime, ws)).container is ContainerState.RUNNING

    async def test_stop_removes_a_dead_container(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        await environment.kill_container(ws)
        await runtime.stop(ws, token=FIRST)
        assert await sight(runtime, ws) == Sighting(volume=True)

    async def test_an_orphan_container_is_removed_and_its_volume_is_not(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        await runtime.remove_orphan_container(ws)
        await runtime.remove_orphan_container(ws)
        assert await sight(runtime, ws) == Sighting(volume=True)

    async def test_concurrent_starts_make_one_container(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        others = [runtime, await environment.open(), await environment.open()]
        await asyncio.gather(*(start(one, ws, image=environment.image) for one in others for _ in range(3)))
        seen = await sight(runtime, ws)
        assert seen.container is ContainerState.RUNNING
        await runtime.stop(ws, token=FIRST)
        assert await sight(runtime, ws) == Sighting(volume=True)

    async def test_each_workspace_has_an_address_of_its_own(
        self, environment: RuntimeEnvironment, runtime: Runtime
    ) -> None:
        several = [uuid4() for _ in range(4)]

        async def bring_up(one: UUID) -> None:
            await runtime.provision(one, token=FIRST)
            await start(runtime, one, image=environment.image)

        await asyncio.gather(*map(bring_up, several))
        assert len({await runtime.address(one) for one in several}) == len(several)

    async def test_recent_output(self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)

        async def has_output() -> bool:
            return b"listens" in b"".join([chunk async for chunk in runtime.logs(ws)])

        await until(has_output, what="output")

    async def test_following_output_ends_with_the_container(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        chunks: list[bytes] = []

        async def follow() -> None:
            async for chunk in runtime.logs(ws, follow=True):
                chunks.append(chunk)  # noqa: PERF401 -- the test reads the list meanwhile

        following = asyncio.create_task(follow())

        async def has_output() -> bool:
            return b"listens" in b"".join(chunks)

        await until(has_output, what="followed output")
        await runtime.stop(ws, token=FIRST)
        await asyncio.wait_for(following, 20)


class ObservationContract:
    async def test_only_the_named_ones(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        other = uuid4()
        await runtime.provision(ws, token=FIRST)
        await runtime.provision(other, token=FIRST)
        assert set((await runtime.observe()).sightings) == {ws, other}
        assert set((await runtime.observe([other, uuid4()])).sightings) == {other}
        assert (await runtime.observe([])).sightings == {}

    async def test_an_engine_that_cannot_be_looked_at_is_an_error_and_not_emptiness(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await runtime.probe()
        await environment.break_engine()
        for call in (runtime.observe(), runtime.observe([ws]), runtime.probe()):
            with pytest.raises(EffectError) as caught:
                await call
            assert caught.value.reason.value == "Unreachable"

    async def test_a_restarted_codehub_recognises_what_runs(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        before = await sight(runtime, ws)
        await runtime.close()
        again = await environment.open()
        assert await sight(again, ws) == before
        await start(again, ws, image=environment.image)  # already there
        assert await sight(again, ws) == before
        await again.stop(ws, token=FIRST)
        assert await sight(again, ws) == Sighting(volume=True)

    async def test_two_installations_do_not_see_each_other(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        stranger = await environment.open("two")
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        assert (await stranger.observe()).sightings == {}
        await stranger.stop(ws, token=THIRD)
        await stranger.remove_orphan_container(ws)
        assert (await sight(runtime, ws)).container is ContainerState.RUNNING

    async def test_images_are_told(self, environment: RuntimeEnvironment, runtime: Runtime) -> None:
        assert environment.image in await runtime.images()


Mutation = Callable[[Runtime, UUID, FencingToken, str], Awaitable[object]]
MUTATIONS: dict[str, Mutation] = {
    "provision": lambda runtime, ws, token, _: runtime.provision(ws, token=token),
    "start": lambda runtime, ws, token, image: start(runtime, ws, token=token, image=image),
    "stop": lambda runtime, ws, token, _: runtime.stop(ws, token=token),
    "delete_volume": lambda runtime, ws, token, _: runtime.delete_volume(ws, token=token),
    "kill_storage_job": lambda runtime, ws, token, _: runtime.kill_storage_job(ws, token=token),
    "run_storage_job": lambda runtime, ws, token, _: runtime.run_storage_job(
        job_of(ws), token=token, on_progress=ignore
    ),
}


class TokenContract:
    @pytest.mark.parametrize("late", MUTATIONS)
    @pytest.mark.parametrize("newer", ["stop", "provision"])
    @pytest.mark.parametrize(
        "token", [FencingToken(4, 9), FencingToken(5, 2)], ids=["older claim", "older term"]
    )
    async def test_a_lower_token_is_refused_and_changes_nothing(
        self,
        environment: RuntimeEnvironment,
        runtime: Runtime,
        ws: UUID,
        late: str,
        newer: str,
        token: FencingToken,
    ) -> None:
        await runtime.provision(ws, token=FencingToken(1, 1))
        await MUTATIONS[newer](runtime, ws, FencingToken(5, 3), environment.image)
        other = await environment.open()  # the late one is another process: memory does not help
        before = await sight(runtime, ws)
        refused = await failure_of(MUTATIONS[late](other, ws, token, environment.image))
        assert refused is FailureCode.STALE_TOKEN
        assert await sight(runtime, ws) == before

    @pytest.mark.parametrize("call", MUTATIONS)
    async def test_the_same_token_and_a_higher_one_are_welcome(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID, call: str
    ) -> None:
        await runtime.provision(ws, token=FencingToken(1, 1))
        await MUTATIONS[call](runtime, ws, FencingToken(1, 1), environment.image)
        if call == "delete_volume":
            await runtime.provision(ws, token=FencingToken(1, 1))
        await MUTATIONS[call](runtime, ws, FencingToken(1, 2), environment.image)

    async def test_every_call_counts_even_one_that_fails(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        assert await failure_of(start(runtime, ws, token=SECOND, image=environment.image))
        assert await failure_of(runtime.provision(ws, token=FIRST)) is FailureCode.STALE_TOKEN

    async def test_a_deleted_workspace_is_not_made_again_by_a_late_call(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await runtime.delete_volume(ws, token=SECOND)
        assert await failure_of(runtime.provision(ws, token=FIRST)) is FailureCode.STALE_TOKEN
        assert await sight(runtime, ws) == Sighting()

    async def test_workspaces_do_not_share_tokens(self, runtime: Runtime, ws: UUID) -> None:
        await runtime.stop(uuid4(), token=THIRD)
        await runtime.provision(ws, token=FIRST)


class StorageJobContract:
    async def test_a_home_goes_into_an_archive_and_comes_back(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.write(ws, "notes.txt", "mine")
        seen: list[StorageProgress] = []

        async def note(progress: StorageProgress) -> None:
            seen.append(progress)

        archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=note)
        assert archived.archive_key.startswith(f"{ws}/")
        assert archived.files == 1
        assert seen
        await runtime.delete_volume(ws, token=FIRST)
        job = job_of(ws, restore=archived.archive_key)
        restored = await runtime.run_storage_job(job, token=SECOND, on_progress=note)
        assert restored.archive_key == archived.archive_key
        assert await sight(runtime, ws) == Sighting(volume=True)
        assert await environment.read(ws, "notes.txt") == "mine"

    async def test_restoring_twice_gives_the_same_home(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.write(ws, "notes.txt", "mine")
        archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
        await environment.write(ws, "notes.txt", "changed meanwhile")
        job = job_of(ws, restore=archived.archive_key)
        for _ in range(2):
            await runtime.run_storage_job(job, token=SECOND, on_progress=ignore)
            assert await environment.read(ws, "notes.txt") == "mine"

    async def test_restoring_what_is_not_there(self, runtime: Runtime, ws: UUID) -> None:
        job = job_of(ws, restore=f"{ws}/{uuid4()}/1/home.tar.zst")
        call = runtime.run_storage_job(job, token=FIRST, on_progress=ignore)
        assert await failure_of(call) is FailureCode.ARCHIVE_NOT_FOUND
        assert await sight(runtime, ws) == Sighting()

    async def test_archiving_without_a_volume(self, runtime: Runtime, ws: UUID) -> None:
        call = runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
        assert await failure_of(call) is FailureCode.VOLUME_MISSING

    @pytest.mark.parametrize(
        ("behaviour", "failure"),
        [("fail", FailureCode.CHECKSUM_MISMATCH), ("crash", FailureCode.STORAGE_JOB_FAILED)],
    )
    async def test_a_failure_is_told_and_leaves_no_job(
        self,
        environment: RuntimeEnvironment,
        runtime: Runtime,
        ws: UUID,
        behaviour: str,
        failure: FailureCode,
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, behaviour)
        call = runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
        assert await failure_of(call) is failure
        assert await sight(runtime, ws) == Sighting(volume=True)
        await environment.let_jobs(ws, "happy")
        await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)  # a retry

    async def test_a_job_that_is_killed_is_a_failure(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, "slow")
        task = await running_job(runtime, ws, token=FIRST)
        await environment.kill_job(ws)
        assert await failure_of(task) is FailureCode.STORAGE_JOB_FAILED
        assert await sight(runtime, ws) == Sighting(volume=True)

    async def test_cancelling_the_call_ends_the_job(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, "slow")
        task = await running_job(runtime, ws, token=FIRST)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await sight(runtime, ws) == Sighting(volume=True)

    async def test_no_job_on_a_running_workspace(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await start(runtime, ws, image=environment.image)
        call = runtime.run_storage_job(job_of(ws), token=SECOND, on_progress=ignore)
        assert await failure_of(call) is FailureCode.VOLUME_IN_USE
        assert (await sight(runtime, ws)).container is ContainerState.RUNNING

    async def test_nothing_touches_the_volume_during_its_job(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, "slow")
        task = await running_job(runtime, ws, token=SECOND)
        assert await failure_of(runtime.delete_volume(ws, token=SECOND)) is FailureCode.VOLUME_IN_USE
        started = start(runtime, ws, token=SECOND, image=environment.image)
        assert await failure_of(started) is FailureCode.VOLUME_IN_USE
        await runtime.stop(ws, token=SECOND)  # there is no container: the job does not mind
        assert await sight(runtime, ws) == Sighting(volume=True, storage_job=True)
        await runtime.kill_storage_job(ws, token=SECOND)
        await asyncio.wait([task])

    @pytest.mark.parametrize(
        "newer", [FencingToken(2, 1), FencingToken(1, 2)], ids=["newer claim", "newer term"]
    )
    async def test_a_newer_job_ends_the_older_one_first(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID, newer: FencingToken
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, "slow")
        older = await running_job(runtime, ws, token=FIRST)
        await environment.let_jobs(ws, "happy")
        successor = await environment.open()
        await successor.run_storage_job(job_of(ws), token=newer, on_progress=ignore)
        assert await failure_of(older) is FailureCode.STALE_TOKEN
        assert await sight(runtime, ws) == Sighting(volume=True)

    async def test_an_older_job_does_not_get_past_a_newer_one(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, "slow")
        newer = await running_job(runtime, ws, token=SECOND)
        call = runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
        assert await failure_of(call) is FailureCode.STALE_TOKEN
        assert (await sight(runtime, ws)).storage_job
        newer.cancel()
        await asyncio.wait([newer])

    async def test_a_newer_start_ends_an_outranked_job(
        self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, "slow")
        older = await running_job(runtime, ws, token=FIRST)
        await start(runtime, ws, token=SECOND, image=environment.image)
        assert await failure_of(older) is FailureCode.STALE_TOKEN
        seen = await sight(runtime, ws)
        assert (seen.container, seen.storage_job) == (ContainerState.RUNNING, False)

    async def test_kill_twice(self, environment: RuntimeEnvironment, runtime: Runtime, ws: UUID) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.let_jobs(ws, "slow")
        task = await running_job(runtime, ws, token=FIRST)
        await runtime.kill_storage_job(ws, token=FIRST)
        assert not (await sight(runtime, ws)).storage_job
        await runtime.kill_storage_job(ws, token=FIRST)
        assert await failure_of(task) is FailureCode.STORAGE_JOB_FAILED


class HomeUsersEnvironment(RuntimeEnvironment, Protocol):
    """Of an engine that can tell who uses a home."""

    async def let_stranger_in(self, workspace_id: UUID) -> None:
        """Somebody else begins to use the home."""

    async def send_stranger_away(self, workspace_id: UUID) -> None: ...


class HomeUsersContract:
    """For runtimes that can see who else uses a home."""

    @pytest.mark.parametrize("call", ["start", "run_storage_job", "delete_volume"])
    async def test_a_home_that_somebody_else_uses_is_left_alone(
        self, environment: HomeUsersEnvironment, runtime: Runtime, ws: UUID, call: str
    ) -> None:
        await runtime.provision(ws, token=FIRST)
        await environment.write(ws, "notes.txt", "mine")
        await environment.let_stranger_in(ws)
        refused = MUTATIONS[call](runtime, ws, SECOND, environment.image)
        assert await failure_of(refused) is FailureCode.VOLUME_USED_ELSEWHERE
        assert await sight(runtime, ws) == Sighting(volume=True)
        assert await failure_of(runtime.provision(ws, token=FIRST)) is FailureCode.STALE_TOKEN
        await environment.send_stranger_away(ws)
        assert await environment.read(ws, "notes.txt") == "mine"
        await MUTATIONS[call](runtime, ws, SECOND, environment.image)


class NodesEnvironment(RuntimeEnvironment, Protocol):
    """Of an engine that places containers on nodes."""

    async def open_without_nodes(self) -> Runtime:
        """A runtime whose containers no node takes, which is worth waiting for."""

    async def add_node(self) -> None:
        """Now there is one."""


class NodesContract:
    """For runtimes whose containers may have to wait for a node."""

    @pytest.mark.parametrize("call", ["start", "run_storage_job"])
    async def test_waiting_for_a_node_is_told_again_and_again(
        self, environment: NodesEnvironment, ws: UUID, call: str
    ) -> None:
        runtime = await environment.open_without_nodes()
        await runtime.provision(ws, token=FIRST)
        told: list[str | None] = []

        async def on_wait(reason: str | None) -> None:
            told.append(reason)

        limits = ResourceLimits()
        waiting = asyncio.ensure_future(
            runtime.start(
                ws, token=FIRST, image_ref=environment.image, env={}, limits=limits, on_wait=on_wait
            )
            if call == "start"
            else runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore, on_wait=on_wait)
        )

        async def is_told_twice() -> bool:
            return len(told) > 1 or waiting.done()

        await until(is_told_twice, what="the wait is told")
        assert not waiting.done()
        assert all(told), "there are words for it"
        assert (await sight(runtime, ws)).container is not ContainerState.RUNNING
        await environment.add_node()
        await waiting
        assert told[-1] is None


class RuntimeContract(
    VolumeContract, ContainerContract, ObservationContract, TokenContract, StorageJobContract
):
    """All of it."""
