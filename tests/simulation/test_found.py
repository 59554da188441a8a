"""What seeds have found, as scenarios: a seed's run changes with the product, these do not."""

import asyncio

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import HealthStatus, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView
from tests.simulation.environment import SimulatedEnvironment
from tests.simulation.person import People
from tests.simulation.simulation import play, until


def the_home(environment: SimulatedEnvironment) -> WorkspaceView:
    return environment.rows()[0].view


async def a_stopped_home(environment: SimulatedEnvironment, people: People) -> WorkspaceView:
    """Edited once, then stopped; never archived."""
    await people.create(start=True)
    await until(lambda: the_home(environment).observed_status is ObservedStatus.RUNNING)
    assert environment.edit(the_home(environment).id)
    await people.intent(the_home(environment).id, "stop")
    await until(lambda: the_home(environment).observed_status is ObservedStatus.STANDBY)
    return the_home(environment)


@pytest.mark.usefixtures("simulated")
def test_a_vanished_volume_is_never_replaced_in_silence() -> None:
    async def script(environment: SimulatedEnvironment, people: People) -> None:
        ws = await a_stopped_home(environment, people)
        environment.unmount(ws.id)
        await until(lambda: the_home(environment).health_status is HealthStatus.ERROR)
        assert the_home(environment).home.volume

    assert play(script) is None


@pytest.mark.usefixtures("simulated")
def test_a_disk_that_came_back_is_marked_again() -> None:
    async def script(environment: SimulatedEnvironment, people: People) -> None:
        ws = await a_stopped_home(environment, people)
        environment.unmount(ws.id)
        await until(lambda: the_home(environment).health_status is HealthStatus.ERROR)
        environment.remount(ws.id)
        await people.intent(ws.id, "recover")  # before the Observer has looked again
        await until(lambda: the_home(environment).observed_status is ObservedStatus.STANDBY)
        environment.unmount(ws.id)
        await until(lambda: the_home(environment).health_status is HealthStatus.ERROR)

    assert play(script) is None


@pytest.mark.usefixtures("simulated")
def test_what_a_failed_restore_of_a_deleted_workspace_left_is_removed() -> None:
    """Deleted while its restore waits for the store: nothing exists, so it is seen DELETED. Then the restore
    goes on, makes a volume, and fails for good: nobody would ever look at that volume again."""

    async def script(environment: SimulatedEnvironment, people: People) -> None:
        ws = await a_stopped_home(environment, people)
        await people.intent(ws.id, "archive")
        await until(lambda: the_home(environment).observed_status is ObservedStatus.PENDING)
        await until(lambda: the_home(environment).operation is Operation.NONE)
        environment.archives.away = True
        await people.intent(ws.id, "start")
        await until(lambda: the_home(environment).operation is Operation.RESTORING)
        await people.intent(ws.id, "delete")
        await until(lambda: the_home(environment).observed_status is ObservedStatus.DELETED)
        place = environment.engine.place(ws.id)
        failed = asyncio.Event()

        def fails_once_there_is_a_volume(kind: str) -> bool:
            if kind == "job" and place.volume is not None:
                failed.set()
                return True
            return False

        environment.chaos.strikes = fails_once_there_is_a_volume  # type: ignore[method-assign]
        environment.chaos.random.choice = lambda _: FailureCode.CHECKSUM_MISMATCH  # type: ignore
        environment.archives.away = False
        await asyncio.wait_for(failed.wait(), 400)
        await until(lambda: the_home(environment).operation is Operation.NONE, seconds=400)
        await until(lambda: place.volume is None)

    assert play(script) is None


@pytest.mark.usefixtures("simulated")
def test_a_retry_does_not_forget_that_the_operation_waited_for_a_node() -> None:
    """Waited longer than the time limit of STARTING, got a node, failed, and failed once more without waiting."""

    async def script(environment: SimulatedEnvironment, people: People) -> None:
        environment.engine.no_node = "0/3 nodes are available"
        await people.create(start=True)
        await until(lambda: the_home(environment).operation is Operation.STARTING)
        await asyncio.sleep(40)
        assert the_home(environment).operation is Operation.STARTING
        error = EffectError(FailureCode.CONTAINER_START_FAILED, "the command ended at once")
        environment.engine.fail_next("start", error)
        environment.engine.fail_next("start", error)
        environment.engine.no_node = None
        await until(lambda: the_home(environment).observed_status is ObservedStatus.RUNNING)
        assert the_home(environment).health_status is HealthStatus.OK

    assert play(script) is None
