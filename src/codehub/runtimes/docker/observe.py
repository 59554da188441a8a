"""Looking at the engine: is it ours, one listing of containers, one of volumes, however many there are.

A look at one workspace asks who mounts its volume, so it also finds those who are not ours, or no longer
called what we called them. A look at everything asks for our label.
"""

import asyncio
import re
from collections.abc import Collection
from uuid import UUID

from codehub.runtimes.docker.engine import DockerEngine, Filters
from codehub.runtimes.docker.inventory import Things, find_strangers, sort_things
from codehub.runtimes.docker.marker import Marker
from codehub.runtimes.docker.names import INSTALLATION, Names


class Looking:
    """Raises ``DOCKER_API_ERROR`` when it could not look: never a partial answer."""

    def __init__(self, engine: DockerEngine, names: Names, marker: Marker) -> None:
        self._engine = engine
        self._names = names
        self._marker = marker
        self._ours = {"label": [f"{INSTALLATION}={names.installation_id}"]}

    async def at(self, workspace_id: UUID) -> Things:
        home = self._names.home(workspace_id)
        volumes = {
            **self._ours,
            "name": [f"^ws-{workspace_id}-", f"^{re.escape(self._names.marker)}$"],
        }
        found = await self._look({"volume": [home]}, volumes, only=workspace_id)
        return found.get(workspace_id, Things())

    async def at_these(self, ids: Collection[UUID]) -> dict[UUID, Things]:
        if len(ids) == 1:
            (only,) = ids
            return {only: await self.at(only)}
        # Docker cannot be asked for "this or that label": all of them is one call, each of them is many.
        everything = await self.at_everything() if ids else {}
        return {each: things for each, things in everything.items() if each in ids}

    async def at_everything(self) -> dict[UUID, Things]:
        return await self._look(self._ours, self._ours)

    async def _look(
        self, containers: Filters, volumes: Filters, *, only: UUID | None = None
    ) -> dict[UUID, Things]:
        found = await self._look_once(containers, volumes, only=only, together=True)
        if any(things.looks_torn for things in found.values()):
            # Made or removed between the two listings, or really torn? One after the other tells.
            found = await self._look_once(containers, volumes, only=only, together=False)
        return found

    async def _look_once(
        self, containers: Filters, volumes: Filters, *, only: UUID | None, together: bool
    ) -> dict[UUID, Things]:
        if together:
            listed, there = await asyncio.gather(
                self._engine.containers(containers), self._engine.volumes(volumes)
            )
        else:
            listed, there = await self._engine.containers(containers), await self._engine.volumes(volumes)
        await self._marker.require(among=there)
        found = sort_things(self._names, containers=listed, volumes=there)
        if only is not None and (strangers := find_strangers(self._names, only, listed)):
            found.setdefault(only, Things()).strangers = strangers
        return found
