"""kill -9 of CodeHub in the middle of a call leaves nothing, or something known. Never a stranger."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import UUID

import pytest

from codehub.domain.states import ContainerState
from codehub.runtimes.base import (
    FencingToken,
    ResourceLimits,
    Sighting,
    StorageJob,
    StorageKind,
    StorageProgress,
)
from codehub.runtimes.local import LocalRuntime
from codehub.runtimes.local.locks import Lock
from codehub.runtimes.local.processes import ProcessIdentity, boot_id, members
from codehub.runtimes.local.records import find_record
from codehub.runtimes.local.spawn import JOB_VARIABLE, WORKSPACE_VARIABLE
from tests.support.local_environment import LocalEnvironment
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
SUCCESSOR = FencingToken(1, 2)  # the same claim, adopted by the next leader
EVERY_TWO_MILLISECONDS = [step * 0.002 for step in range(30)]
NOBODY = ProcessIdentity(pid=0, start_ticks=0, boot_id=boot_id())


@pytest.fixture
async def environment(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    environment = LocalEnvironment(tmp_path)
    yield environment
    await environment.close()


async def kill_codehub(environment: LocalEnvironment, what: str, delays: list[float]) -> list[UUID]:
    """Workspaces whose CodeHub died during ``what``, one per delay."""
    driver = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.local_driver", str(environment.root), what, *map(str, delays)),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await driver.communicate()
    assert driver.returncode == 0
    victims = [UUID(line) for line in output.decode().split()]
    assert len(victims) == len(delays)
    return victims


def marked(workspace_id: UUID, variable: str = WORKSPACE_VARIABLE) -> set[int]:
    """Everything alive that was started for this workspace, whoever knows of it."""
    return {stat.pid for stat in members(NOBODY, f"{variable}={workspace_id}")}


async def is_known(environment: LocalEnvironment, workspace_id: UUID) -> bool:
    """Whoever has the lock sees every process of the workspace on record. True if there is one."""
    lock = Lock(environment.layout().lock(workspace_id))
    await lock.take(timeout=20)
    record = find_record(environment.layout().process(workspace_id))
    alive = marked(workspace_id)
    lock.release()
    if record is None:
        assert not alive
        return False
    family = {stat.pid for stat in members(record.identity, f"{WORKSPACE_VARIABLE}={workspace_id}")}
    assert alive <= family
    return True


async def start(runtime: LocalRuntime, workspace_id: UUID) -> None:
    await runtime.start(workspace_id, token=SUCCESSOR, image_ref="family", env={}, limits=ResourceLimits())


async def test_killed_while_starting(environment: LocalEnvironment) -> None:
    victims = await kill_codehub(environment, "start", EVERY_TWO_MILLISECONDS)
    runtime = await environment.open()
    known = [await is_known(environment, workspace_id) for workspace_id in victims]
    assert any(known)  # the later ones had got there
    for workspace_id in victims:
        await start(runtime, workspace_id)
        record = find_record(environment.layout().process(workspace_id))
        assert record is not None
        assert record.identity.pid in marked(workspace_id)
        assert (await runtime.observe([workspace_id])).sightings[workspace_id].volume
        await runtime.stop(workspace_id, token=SUCCESSOR)
        assert not marked(workspace_id)


async def test_killed_while_stopping(environment: LocalEnvironment) -> None:
    victims = await kill_codehub(environment, "stop", EVERY_TWO_MILLISECONDS[::3])
    runtime = await environment.open()
    for workspace_id in victims:
        await is_known(environment, workspace_id)
        await runtime.stop(workspace_id, token=SUCCESSOR)
        assert not marked(workspace_id)
        assert (await runtime.observe()).sightings[workspace_id] == Sighting(volume=True)


async def test_a_workspace_outlives_codehub_and_is_recognised(environment: LocalEnvironment) -> None:
    (workspace_id,) = await kill_codehub(environment, "start", [0.5])
    runtime = await environment.open()
    record = find_record(environment.layout().process(workspace_id))
    assert (await runtime.observe()).sightings[workspace_id].container is ContainerState.RUNNING
    await start(runtime, workspace_id)
    assert find_record(environment.layout().process(workspace_id)) == record


async def ignore(progress: StorageProgress) -> None:
    pass


async def test_a_storage_job_without_its_leader_is_ended_by_the_next(environment: LocalEnvironment) -> None:
    victims = await kill_codehub(environment, "job", EVERY_TWO_MILLISECONDS[::3])
    runtime = await environment.open()
    for workspace_id in victims:
        await environment.let_jobs(workspace_id, "happy")
        job = StorageJob(kind=StorageKind.ARCHIVE, workspace_id=workspace_id, op_id=workspace_id)
        result = await runtime.run_storage_job(job, token=SUCCESSOR, on_progress=ignore)
        assert result.archive_key
        assert not marked(workspace_id, JOB_VARIABLE)
        assert (await runtime.observe()).sightings[workspace_id] == Sighting(volume=True)


async def test_an_abandoned_storage_job_keeps_the_volume_for_itself(environment: LocalEnvironment) -> None:
    (workspace_id,) = await kill_codehub(environment, "job", [0.5])
    runtime = await environment.open()

    async def is_seen() -> bool:
        return (await runtime.observe()).sightings[workspace_id].storage_job

    if marked(workspace_id, JOB_VARIABLE):  # it may as well have ended for want of a reader
        await until(is_seen, what="abandoned job")
    await runtime.kill_storage_job(workspace_id, token=SUCCESSOR)
    assert not marked(workspace_id, JOB_VARIABLE)
