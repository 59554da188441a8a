"""Looking at the engine: is it ours, one listing of containers, one of volumes, however many there are."""

from collections.abc import Collection
from uuid import UUID

from codehub.runtimes.docker.engine import Engine
from codehub.runtimes.docker.marker import Marker
from codehub.runtimes.docker.names import INSTALLATION, WORKSPACE, Names
from codehub.runtimes.docker.sight import Things, sort_things


class Looking:
    """Raises ``DOCKER_API_ERROR`` when it could not look: never a partial answer."""

    def __init__(self, engine: Engine, names: Names, marker: Marker) -> None:
        self._engine = engine
        self._names = names
        self._marker = marker

    async def at(self, workspace_id: UUID) -> Things:
        found = await self._look([f"{WORKSPACE}={workspace_id}"])
        return found.get(workspace_id, Things())

    async def at_these(self, ids: Collection[UUID]) -> dict[UUID, Things]:
        if len(ids) == 1:
            (only,) = ids
            return {only: await self.at(only)}
        # Docker cannot be asked for "this or that label": all of them is one call, each of them is many.
        everything = await self.at_everything() if ids else {}
        return {each: things for each, things in everything.items() if each in ids}

    async def at_everything(self) -> dict[UUID, Things]:
        return await self._look([])

    async def _look(self, labels: list[str]) -> dict[UUID, Things]:
        found = await self._look_once(labels)
        if any(things.looks_torn for things in found.values()):
            # Removed between the two listings, or really torn? The second look tells.
            found = await self._look_once(labels)
        return found

    async def _look_once(self, labels: list[str]) -> dict[UUID, Things]:
        ours = [f"{INSTALLATION}={self._names.installation_id}", *labels]
        await self._marker.require()
        containers = await self._engine.containers(ours)
        volumes = await self._engine.volumes(ours)
        return sort_things(self._names, containers=containers, volumes=volumes)
