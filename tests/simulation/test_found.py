"""What seeds have found, as scenarios: a seed's run changes with the product, these do not."""

import pytest

from codehub.domain.states import HealthStatus, ObservedStatus
from codehub.domain.workspace import WorkspaceView
from tests.simulation.person import People
from tests.simulation.simulation import play, until
from tests.simulation.world import World


def the_home(world: World) -> WorkspaceView:
    return world.rows()[0].view


async def a_stopped_home(world: World, people: People) -> WorkspaceView:
    """Edited once, then stopped; never archived."""
    await people.create(start=True)
    await until(lambda: the_home(world).observed_status is ObservedStatus.RUNNING)
    assert world.edit(the_home(world).id)
    await people.wish(the_home(world).id, "stop")
    await until(lambda: the_home(world).observed_status is ObservedStatus.STANDBY)
    return the_home(world)


@pytest.mark.usefixtures("simulated")
def test_a_vanished_volume_is_never_replaced_in_silence() -> None:
    async def script(world: World, people: People) -> None:
        ws = await a_stopped_home(world, people)
        world.unmount(ws.id)
        await until(lambda: the_home(world).health_status is HealthStatus.ERROR)
        assert the_home(world).home.volume

    assert play(script) is None


@pytest.mark.usefixtures("simulated")
def test_a_disk_that_came_back_is_marked_again() -> None:
    async def script(world: World, people: People) -> None:
        ws = await a_stopped_home(world, people)
        world.unmount(ws.id)
        await until(lambda: the_home(world).health_status is HealthStatus.ERROR)
        world.remount(ws.id)
        await people.wish(ws.id, "recover")  # before the Observer has looked again
        await until(lambda: the_home(world).observed_status is ObservedStatus.STANDBY)
        world.unmount(ws.id)
        await until(lambda: the_home(world).health_status is HealthStatus.ERROR)

    assert play(script) is None
