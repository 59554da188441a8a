"""Serialize actions per workspace within this process.

Between processes there are only fences.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID
from weakref import WeakValueDictionary


class WorkspaceLocks:
    """Locks by workspace; each exists while it is held or waited for."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def hold(self, workspace_id: UUID) -> AsyncIterator[None]:
        lock = self._locks.get(workspace_id)
        if lock is None:
            lock = self._locks[workspace_id] = asyncio.Lock()
        async with lock:
            yield
