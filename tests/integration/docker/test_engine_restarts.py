"""kill -9 of the Docker engine in the middle of things: nothing is lost, and trying again works."""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Sighting
from codehub.runtimes.docker import DockerRuntime
from tests.contract.runtime_suite import FIRST, SECOND, failure_of, ignore, job_of, sight, start
from tests.support.docker_environment import DockerEnvironment
from tests.support.private_dockerd import PrivateDockerd
from tests.support.waiting import until

# An engine of its own is started, killed and started again: real engines need real time on a busy machine.
pytestmark = [
    pytest.mark.needs_docker,
    pytest.mark.xdist_group("private-dockerd"),
    pytest.mark.timeout(600),
]

HOME_BYTES = 40_000_000


@pytest.fixture(scope="module")
def dockerd() -> Iterator[PrivateDockerd]:
    dockerd = PrivateDockerd()
    dockerd.start()
    yield dockerd
    dockerd.close()


@pytest.fixture
async def environment(dockerd: PrivateDockerd, tmp_path: Path) -> AsyncIterator[DockerEnvironment]:
    environment = DockerEnvironment(dockerd.address, tmp_path)
    # An engine that was killed in the wrong moment may never answer a call about that one container.
    environment.settings = replace(environment.settings, call_seconds=10)
    await environment.prepare()
    yield environment
    await environment.close()


async def interrupted(
    dockerd: PrivateDockerd, runtime: DockerRuntime, call: Awaitable[object], *, after_seconds: float
) -> None:
    """Kill the engine while ``call`` runs, and start it again."""
    task = asyncio.ensure_future(call)
    await asyncio.wait({task}, timeout=after_seconds)
    await asyncio.to_thread(dockerd.kill)
    await asyncio.wait({task})
    error = task.exception()
    if error is not None:
        assert isinstance(error, EffectError), error
        # Whatever it was doing, it says that the engine is away, and not that something is gone.
        assert error.failure is FailureCode.DOCKER_API_ERROR, error
    assert await failure_of(runtime.observe()) is FailureCode.DOCKER_API_ERROR
    await asyncio.to_thread(dockerd.start)


async def tried_until_done(call: Callable[[], Awaitable[object]]) -> None:
    """As the reconciler does: the same action, the same token, until it comes through."""

    async def works() -> bool:
        try:
            await call()
        except EffectError:
            return False
        return True

    await until(works, what="the same call again", seconds=180)


@pytest.mark.parametrize("after_seconds", [0.05, 0.2, 0.5])
async def test_killed_during_a_start(
    dockerd: PrivateDockerd, environment: DockerEnvironment, ws: UUID, after_seconds: float
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await environment.write(ws, "notes.txt", "mine")
    await interrupted(
        dockerd, runtime, start(runtime, ws, image=environment.image), after_seconds=after_seconds
    )
    await tried_until_done(lambda: start(runtime, ws, image=environment.image))
    assert (await sight(runtime, ws)).container is ContainerState.RUNNING
    assert await environment.read(ws, "notes.txt") == "mine"


@pytest.mark.parametrize("after_seconds", [0.01, 0.1])
async def test_killed_during_a_stop(
    dockerd: PrivateDockerd, environment: DockerEnvironment, ws: UUID, after_seconds: float
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    await environment.write(ws, "notes.txt", "mine")
    await interrupted(dockerd, runtime, runtime.stop(ws, token=SECOND), after_seconds=after_seconds)
    await tried_until_done(lambda: runtime.stop(ws, token=SECOND))
    assert await sight(runtime, ws) == Sighting(volume=True)
    assert await environment.read(ws, "notes.txt") == "mine"


@pytest.mark.parametrize("after_seconds", [0.3, 1.0])
async def test_killed_during_an_archive_and_a_restore(
    dockerd: PrivateDockerd, environment: DockerEnvironment, ws: UUID, after_seconds: float
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    content = random.Random(after_seconds).randbytes(HOME_BYTES)
    home = Path(environment.api.call("GET", f"/volumes/ws-{ws}-home")["Mountpoint"])
    (home / "noise").write_bytes(content)
    archive = job_of(ws)

    def run_archive() -> Awaitable[object]:
        return runtime.run_storage_job(archive, token=FIRST, on_progress=ignore)

    await interrupted(dockerd, runtime, run_archive(), after_seconds=after_seconds)
    assert (home / "noise").read_bytes() == content
    await tried_until_done(run_archive)
    archived = await runtime.run_storage_job(archive, token=FIRST, on_progress=ignore)
    assert archived.extra["reused"] is True
    await runtime.delete_volume(ws, token=FIRST)
    job = job_of(ws, restore=archived.archive_key)

    def run_restore() -> Awaitable[object]:
        return runtime.run_storage_job(job, token=SECOND, on_progress=ignore)

    await interrupted(dockerd, runtime, run_restore(), after_seconds=after_seconds)
    await tried_until_done(run_restore)
    assert (home / "noise").read_bytes() == content
    assert os.listdir(home) == ["noise"]
