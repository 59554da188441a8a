"""From "somebody connected" to "everybody who looks is told": at once, and then at most once a second.

A page load opens and closes a dozen connections. Whoever looks at a card wants the first and the last of
that, so a change is published at once if the last one was a while ago, otherwise when its second is over.
Publishing is a hint: one that is lost is made good by the next snapshot a reader gets.
"""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from codehub.kit.tasks import cancel_and_wait

INTERVAL_SECONDS = 1.0

Publish = Callable[[UUID, UUID], Awaitable[bool]]


class ActivityNews:
    """One task for each workspace that changed within the last second, none otherwise."""

    def __init__(self, publish: Publish, *, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._publish = publish
        self._interval_seconds = interval_seconds
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._again: set[UUID] = set()

    def changed(self, workspace_id: UUID, owner_id: UUID) -> None:
        """Redis knows it already: whoever is told now, and asks, reads the new state."""
        if workspace_id in self._tasks:
            self._again.add(workspace_id)
            return
        loop = asyncio.get_running_loop()
        self._tasks[workspace_id] = loop.create_task(self._tell(workspace_id, owner_id))

    async def close(self) -> None:
        await cancel_and_wait(list(self._tasks.values()))

    async def _tell(self, workspace_id: UUID, owner_id: UUID) -> None:
        try:
            while True:
                self._again.discard(workspace_id)
                await self._publish(workspace_id, owner_id)
                await asyncio.sleep(self._interval_seconds)
                if workspace_id not in self._again:
                    return
        finally:
            # In the same step as the look above: a change in between would find a task that tells no more.
            del self._tasks[workspace_id]
