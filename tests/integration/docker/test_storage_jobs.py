"""Homes through the real storage job in its container: file by file, alone, and taken over by others."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError
from codehub.runtimes.base import Sighting, StorageJob, StorageKind, Token
from codehub.runtimes.docker import DockerRuntime
from tests.contract.runtime_suite import FIRST, SECOND, ignore, job_of, running_job, sight, start
from tests.support.docker_engine import DockerBench
from tests.support.object_stores import moto_server
from tests.support.odd_homes import ODDITIES, make_odd_home
from tests.support.trees import hardlink_groups, make_every_kind, make_socket, snapshot

pytestmark = pytest.mark.needs_docker


def home_of(bench: DockerBench, workspace_id: UUID) -> Path:
    """Where the engine keeps the volume, if we may look there."""
    path = Path(bench.api.call("GET", f"/volumes/ws-{workspace_id}-home")["Mountpoint"])
    if not os.access(path, os.W_OK | os.X_OK):
        pytest.skip("needs root: compares files inside the engine's own directory")
    return path


async def test_every_kind_of_file_comes_back_as_it_was(bench: DockerBench, ws: UUID) -> None:
    runtime = await bench.open()
    await runtime.provision(ws, token=FIRST)
    home = home_of(bench, ws)
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
    assert snapshot(home_of(bench, ws)) == before
    assert hardlink_groups(home_of(bench, ws)) == links


async def test_a_restore_that_died_at_any_step_of_the_swap_is_finished(bench: DockerBench, ws: UUID) -> None:
    """Over a home of everything that trips a careless walk. ``tests/integration/archives`` has every step."""
    runtime = await bench.open()
    await runtime.provision(ws, token=FIRST)
    make_odd_home(home_of(bench, ws), sorted(set(ODDITIES) - {"very_deep_folders"}))
    before = snapshot(home_of(bench, ws))
    archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    job = job_of(ws, restore=archived.archive_key)
    for step in (1, 9, 25, 40):
        await bench.let_jobs(ws, f"die {step}")
        with pytest.raises(EffectError):
            await runtime.run_storage_job(job, token=FIRST, on_progress=ignore)
        await bench.let_jobs(ws, "happy")
        await runtime.run_storage_job(job, token=FIRST, on_progress=ignore)
        assert snapshot(home_of(bench, ws)) == before


async def test_a_restored_home_can_be_worked_in(bench: DockerBench, ws: UUID) -> None:
    """Written by a person in a container, archived, restored, and still that person's."""
    runtime = await bench.open()
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image=bench.image)
    await runtime.stop(ws, token=FIRST)
    await bench.write(ws, "notes.txt", "mine")
    archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    await runtime.delete_volume(ws, token=FIRST)
    await runtime.run_storage_job(job_of(ws, restore=archived.archive_key), token=SECOND, on_progress=ignore)
    owner = home_of(bench, ws).stat()
    assert (owner.st_uid, owner.st_gid) == (1000, 1000)
    await start(runtime, ws, token=SECOND, image=bench.image)
    assert await bench.read(ws, "notes.txt") == "mine"


async def test_a_home_goes_to_an_object_store_and_comes_back(bench: DockerBench, ws: UUID) -> None:
    with moto_server() as server:
        bench.jobs = replace(
            bench.jobs,
            archive_url=f"s3://{server.new_bucket()}/homes",
            storage_options=server.options(),
            network="host",  # where the test's server listens
        )
        runtime = await bench.open()
        await runtime.provision(ws, token=FIRST)
        await bench.write(ws, "notes.txt", "mine")
        archived = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
        await runtime.delete_volume(ws, token=FIRST)
        job = job_of(ws, restore=archived.archive_key)
        await runtime.run_storage_job(job, token=SECOND, on_progress=ignore)
        assert await bench.read(ws, "notes.txt") == "mine"


async def test_a_job_sees_its_volume_and_the_store_and_nothing_else(bench: DockerBench, ws: UUID) -> None:
    runtime = await bench.open()
    await runtime.provision(ws, token=FIRST)
    await bench.let_jobs(ws, "slow")
    task = await running_job(runtime, ws, token=FIRST)
    found = bench.api.container(f"ws-{ws}-job")
    assert found is not None
    host = found["HostConfig"]
    assert {mount["Destination"]: mount["RW"] for mount in found["Mounts"]} == {
        "/volume": False,
        str(bench.store): True,
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
    bench: DockerBench, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = await bench.open()
    await dying.provision(ws, token=FIRST)
    await bench.write(ws, "notes.txt", "mine")
    await bench.let_jobs(ws, "slow")
    task = await running_job(dying, ws, token=FIRST)
    _let_it_die_without_tidying(dying, monkeypatch)
    task.cancel()
    await asyncio.wait([task])
    successor = await bench.open()
    assert await sight(successor, ws) == Sighting(volume=True, storage_job=True)  # it goes on by itself
    await bench.let_jobs(ws, "happy")
    result = await successor.run_storage_job(job_of(ws), token=Token(1, 2), on_progress=ignore)
    assert result.files == 1
    assert await sight(successor, ws) == Sighting(volume=True)


async def test_a_job_that_finished_after_its_codehub_died_is_not_done_twice(
    bench: DockerBench, ws: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = await bench.open()
    await dying.provision(ws, token=FIRST)
    await bench.write(ws, "notes.txt", "mine")
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
    bench.api.call("POST", f"/containers/ws-{ws}-job/wait", condition="not-running")
    successor = await bench.open()
    again = await successor.run_storage_job(job, token=Token(1, 2), on_progress=ignore)
    assert again.extra["reused"] is True
    assert len(list(bench.store.glob(f"{ws}/{op_id}/*/home.tar.zst"))) == 1


def _let_it_die_without_tidying(runtime: DockerRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(runtime, "_end_job", nothing)
