"""Homes through the real storage job in its container: file by file, alone, and taken over by others."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError
from codehub.runtimes.base import FencingToken, Sighting, StorageJob, StorageKind
from codehub.runtimes.docker import DockerRuntime
from tests.contract.runtime_suite import FIRST, SECOND, ignore, job_of, running_job, sight, start
from tests.support.docker_environment import DockerEnvironment
from tests.support.object_stores import moto_server
from tests.support.odd_homes import SHALLOW, make_odd_home
from tests.support.trees import hardlink_groups, make_every_kind, make_socket, snapshot

pytestmark = pytest.mark.needs_docker


def home_of(environment: DockerEnvironment, workspace_id: UUID) -> Path:
    """Where the engine keeps the volume, if we may look there."""
    path = Path(environment.api.call("GET", f"/volumes/ws-{workspace_id}-home")["Mountpoint"])
    if not os.access(path, os.W_OK | os.X_OK):
        pytest.skip("needs root: compares files inside the engine's own directory")
    return path


async def test_every_kind_of_file_comes_back_as_it_was(environment: DockerEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    home = home_of(environment, ws)
    make_every_kind(home)
    os.chown(home / "secret", 1234, 5678)
    before, links = snapshot(home), hardlink_groups(home)
    make_socket(home)
    os.utime(home, ns=(1, before[b"."].mtime_ns))
    archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    assert archived.skipped == 1
    await runtime.delete_volume(ws, token=FIRST)
    job = job_of(ws, restore=archived.archive_key)
    await runtime.run_storage_job(job, token=SECOND, on_progress=ignore)
    assert snapshot(home_of(environment, ws)) == before
    assert hardlink_groups(home_of(environment, ws)) == links


@pytest.mark.timeout(300)  # some 500 restores
@pytest.mark.parametrize(
    ("oddities", "mode", "stride"),
    [
        pytest.param(SHALLOW, 0o755, 1, id="every oddity"),
        pytest.param(["link_to_a_target_longer_than_a_name"], 0o500, 1, id="read-only home"),
        pytest.param(["very_deep_folders"], 0o755, 2999, id="folders deeper than recursion goes"),
    ],
)
async def test_a_restore_killed_at_every_step_of_the_swap_is_finished(
    environment: DockerEnvironment, ws: UUID, oddities: list[str], mode: int, stride: int
) -> None:
    """Steps as ``tests/integration/archives`` counts them; each try is followed by one that compares every file."""
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    make_odd_home(home_of(environment, ws), oddities, mode=mode)
    before = snapshot(home_of(environment, ws))
    archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    await environment.let_jobs(ws, f"die {stride}")
    job = job_of(ws, restore=archived.archive_key)
    try:
        await runtime.run_storage_job(job, token=FIRST, on_progress=ignore)
    except EffectError as error:
        pytest.fail("\n".join([error.message, *error.context.get("output", [])]))
    assert snapshot(home_of(environment, ws)) == before
    top = [name for name in before if b"/" not in name and name != b"."]
    assert environment.steps(ws) > 2 * len(top), "each is removed and moved: are its steps counted?"


async def test_a_restored_home_can_be_worked_in(environment: DockerEnvironment, ws: UUID) -> None:
    """Written by a person in a container, archived, restored, and still that person's."""
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=environment.image)
    await runtime.stop(ws, token=FIRST)
    await environment.write(ws, "notes.txt", "mine")
    archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    await runtime.delete_volume(ws, token=FIRST)
    await runtime.run_storage_job(job_of(ws, restore=archived.archive_key), token=SECOND, on_progress=ignore)
    owner = home_of(environment, ws).stat()
    assert (owner.st_uid, owner.st_gid) == (1000, 1000)
    await start(runtime, ws, token=SECOND, image=environment.image)
    assert await environment.read(ws, "notes.txt") == "mine"


async def test_a_home_goes_to_an_object_store_and_comes_back(
    environment: DockerEnvironment, ws: UUID
) -> None:
    with moto_server() as server:
        environment.jobs = replace(
            environment.jobs,
            archive_url=f"s3://{server.new_bucket()}/homes",
            storage_options=server.options(),
            network="host",  # where the test's server listens
        )
        runtime = await environment.open()
        await runtime.provision(ws, token=FIRST)
        await environment.write(ws, "notes.txt", "mine")
        archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
        await runtime.delete_volume(ws, token=FIRST)
        job = job_of(ws, restore=archived.archive_key)
        await runtime.run_storage_job(job, token=SECOND, on_progress=ignore)
        assert await environment.read(ws, "notes.txt") == "mine"


async def test_a_job_sees_its_volume_and_the_store_and_nothing_else(
    environment: DockerEnvironment, ws: UUID
) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    await environment.let_jobs(ws, "slow")
    task = await running_job(runtime, ws, token=FIRST)
    found = environment.api.container(f"ws-{ws}-job")
    assert found is not None
    host = found["HostConfig"]
    assert {mount["Destination"]: mount["RW"] for mount in found["Mounts"]} == {
        "/volume": False,
        str(environment.store): True,
    }
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"]
    assert not host["Privileged"]
    assert host["CapDrop"] == ["ALL"]
    assert set(host["CapAdd"]) == {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"}
    assert found["Config"]["Labels"]["codehub.role"] == "storage-job"
    task.cancel()
    await asyncio.wait([task])


async def test_a_job_whose_codehub_died_is_taken_over(
    environment: DockerEnvironment, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = await environment.open()
    await dying.provision(ws, token=FIRST)
    await environment.write(ws, "notes.txt", "mine")
    await environment.let_jobs(ws, "slow")
    task = await running_job(dying, ws, token=FIRST)
    _let_it_die_without_tidying(dying, monkeypatch)
    task.cancel()
    await asyncio.wait([task])
    successor = await environment.open()
    assert await sight(successor, ws) == Sighting(volume=True, storage_job=True)  # it goes on by itself
    await environment.let_jobs(ws, "happy")
    result = await successor.run_storage_job(job_of(ws), token=FencingToken(1, 2), on_progress=ignore)
    assert result.files == 1
    assert await sight(successor, ws) == Sighting(volume=True)


async def test_a_job_that_finished_after_its_codehub_died_is_not_done_twice(
    environment: DockerEnvironment, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = await environment.open()
    await dying.provision(ws, token=FIRST)
    await environment.write(ws, "notes.txt", "mine")
    op_id = uuid4()
    started = asyncio.Event()
    start_job = dying._jobs.start

    async def start_and_tell(container_id: str, job: StorageJob) -> None:
        await start_job(container_id, job)
        started.set()

    monkeypatch.setattr(dying._jobs, "start", start_and_tell)
    job = StorageJob(StorageKind.ARCHIVE, ws, op_id)
    task = asyncio.create_task(dying.run_storage_job(job, token=FIRST, on_progress=ignore))
    await started.wait()
    _let_it_die_without_tidying(dying, monkeypatch)
    task.cancel()
    await asyncio.wait([task])
    environment.api.call("POST", f"/containers/ws-{ws}-job/wait", condition="not-running")
    successor = await environment.open()
    again = await successor.run_storage_job(job, token=FencingToken(1, 2), on_progress=ignore)
    assert again.extra["reused"] is True
    assert len(list(environment.store.glob(f"{ws}/{op_id}/*/home.tar.zst"))) == 1


def _let_it_die_without_tidying(runtime: DockerRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(runtime, "_end_job", nothing)
