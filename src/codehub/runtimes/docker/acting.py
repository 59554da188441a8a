"""Run a mutation of a workspace: hold its lock, admit the token, then act. Fenced.

Fences that our token outranks are removed meanwhile. Before a failure is raised the engine's mark is checked: if
it is missing, the failure is the engine's (it counts as away) and not the workspace's.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import FencingToken
from codehub.runtimes.docker.fences import Fences
from codehub.runtimes.docker.inventory import Resources
from codehub.runtimes.docker.marker import Marker
from codehub.runtimes.workspace_locks import WorkspaceLocks


class Acting:
    """Locks and admits mutations of workspaces."""

    def __init__(self, fences: Fences, marker: Marker) -> None:
        self._fences = fences
        self._marker = marker
        self._locks = WorkspaceLocks()

    @asynccontextmanager
    async def on(self, workspace_id: UUID, token: FencingToken) -> AsyncIterator[Resources]:
        """Hold the workspace's lock with an admitted token; yields what exists."""
        async with self.alone_on(workspace_id), self.admitted(workspace_id, token) as resources:
            yield resources

    @asynccontextmanager
    async def alone_on(self, workspace_id: UUID) -> AsyncIterator[None]:
        """Hold the workspace's lock; the caller admits the token."""
        async with self._locks.hold(workspace_id), self._on_our_engine():
            yield

    @asynccontextmanager
    async def admitted(self, workspace_id: UUID, token: FencingToken) -> AsyncIterator[Resources]:
        resources = await self._fences.admit(workspace_id, token)
        async with self.removing_lower_fences(token, resources):
            yield resources

    @asynccontextmanager
    async def removing_lower_fences(self, token: FencingToken, resources: Resources) -> AsyncIterator[None]:
        removing = asyncio.create_task(self._fences.remove_lower(token, resources))
        try:
            yield
        finally:
            await removing

    @asynccontextmanager
    async def _on_our_engine(self) -> AsyncIterator[None]:
        try:
            yield
        except EffectError as error:
            if error.failure not in (FailureCode.DOCKER_API_ERROR, FailureCode.STALE_TOKEN):
                await self._marker.require()
            raise
