"""Publish activity changes of a workspace: at once, then at most once a second.

A page load opens and closes a dozen connections. Readers need the first and the last of these changes, so a
change is published at once if the last one was at least a second ago, otherwise when that second has passed.
A lost message is repaired by the next snapshot a reader gets.
"""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID

from codehub.kit.tasks import cancel_and_wait

INTERVAL_SECONDS = 1.0

Publish = Callable[[UUID, UUID], Awaitable[bool]]


class ActivityPublisher:
    """Rate-limits activity messages per workspace.

    One task for each workspace that changed within the last second, none otherwise.
    """

    def __init__(self, publish: Publish, *, interval_seconds: float = INTERVAL_SECONDS) -> None:
        self._publish = publish
        self._interval_seconds = interval_seconds
        self._tasks: dict[UUID, asyncio.Task[None]] = {}
        self._again: set[UUID] = set()

    def changed(self, workspace_id: UUID, owner_id: UUID) -> None:
        """Publish that the activity of a workspace changed.

        Call it after Redis has been written: a reader that fetches on the message reads the new state.
        """
        if workspace_id in self._tasks:
            self._again.add(workspace_id)
            return
        loop = asyncio.get_running_loop()
        self._tasks[workspace_id] = loop.create_task(self._publish_changes(workspace_id, owner_id))

    async def close(self) -> None:
        await cancel_and_wait(list(self._tasks.values()))

    async def _publish_changes(self, workspace_id: UUID, owner_id: UUID) -> None:
        try:
            while True:
                self._again.discard(workspace_id)
                await self._publish(workspace_id, owner_id)
                await asyncio.sleep(self._interval_seconds)
                if workspace_id not in self._again:
                    return
        finally:
            # No await since the check above: a change in between would be left to a task that has ended.
            del self._tasks[workspace_id]
