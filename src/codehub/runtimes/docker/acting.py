"""The shape every mutation has: hold the workspace's lock, admit the token, act on what the admission saw.

Fences that ours has outranked are removed meanwhile. A failure is looked at once more before it leaves: if
the engine has lost our mark, the failure is the engine's (it counts as away) and no workspace's.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.base import Token
from codehub.runtimes.docker.fences import Fences
from codehub.runtimes.docker.inventory import Things
from codehub.runtimes.docker.locks import WorkspaceLocks
from codehub.runtimes.docker.marker import Marker


class Acting:
    def __init__(self, fences: Fences, marker: Marker) -> None:
        self._fences = fences
        self._marker = marker
        self._locks = WorkspaceLocks()

    @asynccontextmanager
    async def on(self, workspace_id: UUID, token: Token) -> AsyncIterator[Things]:
        """Hold the workspace's lock with a token that nobody outranks; gives what exists."""
        async with self.alone_on(workspace_id), self.admitted(workspace_id, token) as things:
            yield things

    @asynccontextmanager
    async def alone_on(self, workspace_id: UUID) -> AsyncIterator[None]:
        """The lock alone: the caller sees to the token."""
        async with self._locks.hold(workspace_id), self._on_our_engine():
            yield

    @asynccontextmanager
    async def admitted(self, workspace_id: UUID, token: Token) -> AsyncIterator[Things]:
        things = await self._fences.admit(workspace_id, token)
        async with self.removing_lower_fences(token, things):
            yield things

    @asynccontextmanager
    async def removing_lower_fences(self, token: Token, things: Things) -> AsyncIterator[None]:
        removing = asyncio.create_task(self._fences.remove_lower(token, things))
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
