"""Many at once, and two CodeHubs side by side."""

import asyncio
from uuid import uuid4

import pytest

from codehub.domain.states import ContainerState
from codehub.runtimes.base import Sighting
from tests.contract.runtime_suite import FIRST, SECOND, start
from tests.support.docker_environment import DockerEnvironment

pytestmark = pytest.mark.needs_docker

MANY = 50


async def test_fifty_workspaces_started_at_once_all_run(environment: DockerEnvironment) -> None:
    runtime = await environment.open(settle_seconds=0.2)
    ids = [uuid4() for _ in range(MANY)]
    await asyncio.gather(*(runtime.provision(each, token=FIRST) for each in ids))
    await asyncio.gather(*(start(runtime, each, image=environment.image) for each in ids))
    seen = (await runtime.observe()).sightings
    assert set(seen) == set(ids)
    assert {sighting.container for sighting in seen.values()} == {ContainerState.RUNNING}
    assert len({sighting.address for sighting in seen.values()}) == MANY
    await asyncio.gather(*(runtime.stop(each, token=SECOND) for each in ids))
    await asyncio.gather(*(runtime.delete_volume(each, token=SECOND) for each in ids))
    assert (await runtime.observe()).sightings == {}


async def test_two_installations_live_side_by_side(environment: DockerEnvironment) -> None:
    one, two = await environment.open("one"), await environment.open("two")
    mine, theirs, shared = uuid4(), uuid4(), uuid4()
    for runtime, each in ((one, mine), (two, theirs), (one, shared)):
        await runtime.provision(each, token=FIRST)
        await start(runtime, each, image=environment.image)
    assert set((await one.observe()).sightings) == {mine, shared}
    assert set((await two.observe()).sightings) == {theirs}
    # The same id in both: the second finds the names taken and harms nothing.
    await two.stop(shared, token=SECOND)
    await two.delete_volume(shared, token=SECOND)
    assert (await one.observe([shared])).sightings[shared].container is ContainerState.RUNNING
    await one.stop(mine, token=SECOND)
    assert (await one.observe([mine])).sightings[mine] == Sighting(volume=True)
    assert (await two.observe([theirs])).sightings[theirs].container is ContainerState.RUNNING
