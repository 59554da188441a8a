"""The faults a simulation injects do what they say: before the effect, after it, or death in between."""

import asyncio
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import (
    FencingToken,
    Observation,
    Sighting,
    StorageJob,
    StorageKind,
    StorageProgress,
)
from tests.support.fake_runtime import Call, FakeEngine, FakeRuntime, Moment

TOKEN, SUCCESSOR = FencingToken(1, 1), FencingToken(1, 2)


async def ignore(progress: StorageProgress) -> None:
    pass


def archive(workspace_id: UUID) -> StorageJob:
    return StorageJob(kind=StorageKind.ARCHIVE, workspace_id=workspace_id, op_id=uuid4())


@pytest.mark.parametrize(("moment", "made"), [(Moment.BEFORE, False), (Moment.AFTER, True)])
async def test_a_failure_before_the_effect_and_after_it(moment: Moment, made: bool) -> None:
    engine, workspace_id = FakeEngine(), uuid4()
    runtime = FakeRuntime(engine)
    engine.fail_next("provision", EffectError(FailureCode.VOLUME_CREATE_FAILED, "no"), moment=moment)
    with pytest.raises(EffectError):
        await runtime.provision(workspace_id, token=TOKEN)
    assert (engine.place(workspace_id).volume is not None) is made
    await runtime.provision(workspace_id, token=TOKEN)


async def test_a_gate_sees_every_call_and_may_hold_it() -> None:
    engine, workspace_id = FakeEngine(), uuid4()
    held = asyncio.Event()

    async def gate(call: Call) -> None:
        if call.moment is Moment.AFTER:
            held.set()
            await asyncio.Event().wait()

    engine.gate = gate
    late = asyncio.create_task(FakeRuntime(engine, replica="a").provision(workspace_id, token=TOKEN))
    await held.wait()
    engine.gate = None
    assert (await FakeRuntime(engine).observe()).sightings == {workspace_id: Sighting(volume=True)}
    assert engine.history[0] == Call("provision", Moment.BEFORE, workspace_id, TOKEN, "a")
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late


async def test_a_crashed_replica_leaves_its_job_to_the_successor() -> None:
    engine, workspace_id = FakeEngine(job_steps=100, step_seconds=10), uuid4()
    leader, successor = FakeRuntime(engine), FakeRuntime(engine)
    await leader.provision(workspace_id, token=TOKEN)
    begun = asyncio.Event()

    async def note(progress: StorageProgress) -> None:
        begun.set()

    call = asyncio.create_task(leader.run_storage_job(archive(workspace_id), token=TOKEN, on_progress=note))
    await begun.wait()
    leader.crash()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await successor.observe()).sightings[workspace_id].storage_job
    engine.step_seconds = 0
    result = await successor.run_storage_job(archive(workspace_id), token=SUCCESSOR, on_progress=ignore)
    assert engine.archives[result.archive_key].committed
    debris = [key for key, kept in engine.archives.items() if not kept.committed]
    assert len(debris) == 1


async def test_an_archive_of_the_same_operation_is_made_once() -> None:
    engine, workspace_id = FakeEngine(step_seconds=0), uuid4()
    runtime = FakeRuntime(engine)
    await runtime.provision(workspace_id, token=TOKEN)
    job = archive(workspace_id)
    first = await runtime.run_storage_job(job, token=TOKEN, on_progress=ignore)
    assert await runtime.run_storage_job(job, token=SUCCESSOR, on_progress=ignore) == first
    assert list(engine.archives) == [first.archive_key]


async def test_an_engine_that_is_away_and_an_item_that_cannot_be_read() -> None:
    engine, workspace_id = FakeEngine(), uuid4()
    runtime = FakeRuntime(engine)
    await runtime.provision(workspace_id, token=TOKEN)
    engine.place(workspace_id).unreadable = True
    assert await runtime.observe() == Observation({}, frozenset({workspace_id}))
    engine.away = True
    with pytest.raises(EffectError):
        await runtime.probe()
