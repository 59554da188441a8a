"""Observe the engine: check its mark, list containers, list volumes.

Two listings, however many workspaces there are. An observation of one workspace lists the containers that mount
its volume, so it also finds those that are not ours or were renamed. One of all workspaces lists by our label.
"""

import asyncio
import re
from collections.abc import Collection
from uuid import UUID

from codehub.runtimes.docker.engine import DockerEngine, Filters
from codehub.runtimes.docker.inventory import Resources, find_strangers, sort_resources
from codehub.runtimes.docker.marker import Marker
from codehub.runtimes.docker.names import INSTALLATION, Names


class EngineObserver:
    """Observes workspaces. Raises ``DOCKER_API_ERROR``; never a partial result."""

    def __init__(self, engine: DockerEngine, names: Names, marker: Marker) -> None:
        self._engine = engine
        self._names = names
        self._marker = marker
        self._ours = {"label": [f"{INSTALLATION}={names.installation_id}"]}

    async def observe_one(self, workspace_id: UUID) -> Resources:
        home = self._names.home(workspace_id)
        volumes = {
            **self._ours,
            "name": [f"^ws-{workspace_id}-", f"^{re.escape(self._names.marker)}$"],
        }
        found = await self._list({"volume": [home]}, volumes, only=workspace_id)
        return found.get(workspace_id, Resources())

    async def observe_some(self, ids: Collection[UUID]) -> dict[UUID, Resources]:
        if len(ids) == 1:
            (only,) = ids
            return {only: await self.observe_one(only)}
        # Docker has no filter "this or that label": listing all is one call, listing each is many.
        everything = await self.observe_all() if ids else {}
        return {each: resources for each, resources in everything.items() if each in ids}

    async def observe_all(self) -> dict[UUID, Resources]:
        return await self._list(self._ours, self._ours)

    async def _list(
        self, containers: Filters, volumes: Filters, *, only: UUID | None = None
    ) -> dict[UUID, Resources]:
        found = await self._list_once(containers, volumes, only=only, together=True)
        if any(resources.lacks_volume for resources in found.values()):
            # Changed between the two concurrent listings, or really without volume? List in sequence to find out.
            found = await self._list_once(containers, volumes, only=only, together=False)
        return found

    async def _list_once(
        self, containers: Filters, volumes: Filters, *, only: UUID | None, together: bool
    ) -> dict[UUID, Resources]:
        if together:
            listed, volumes_listed = await asyncio.gather(
                self._engine.containers(containers), self._engine.volumes(volumes)
            )
        else:
            listed, volumes_listed = (
                await self._engine.containers(containers),
                await self._engine.volumes(volumes),
            )
        await self._marker.require(among=volumes_listed)
        found = sort_resources(self._names, containers=listed, volumes=volumes_listed)
        if only is not None and (strangers := find_strangers(self._names, only, listed)):
            found.setdefault(only, Resources()).strangers = strangers
        return found
