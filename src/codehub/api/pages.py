"""Pages of workspaces, rendered.

The first page is what every dashboard and script asks for, often several times in the same moment: after a
restart all tabs come back together. Equal questions then share one query and one rendering (``Shared``: an
answer is never older than the question). Who may ask for whose page was decided before.
"""

from typing import Any
from uuid import UUID

from codehub.api.live.activity import ActivityCache
from codehub.api.queue_places import QueuePlaces
from codehub.api.rendering import WorkspaceRenderer
from codehub.kit.batching import Shared
from codehub.store.db.session import Sessions
from codehub.store.workspaces import queries


class WorkspacePages:
    def __init__(
        self,
        reading: Sessions,
        *,
        activity: ActivityCache,
        queue: QueuePlaces,
        renderer: WorkspaceRenderer,
    ) -> None:
        self._reading = reading
        self._activity = activity
        self._queue = queue
        self._renderer = renderer
        self._first: Shared[tuple[UUID | None, int], bytes] = Shared(
            lambda asked: self.read(asked[0], limit=asked[1])
        )

    async def first(self, owner_id: UUID | None, limit: int) -> bytes:
        """This person's newest; None: everybody's."""
        # Pays for: list of 50 by API.
        return await self._first.get((owner_id, limit))

    async def read(self, owner_id: UUID | None, *, limit: int, **filters: Any) -> bytes:
        async with self._reading() as session:
            page = await queries.list_page(session, owner_id=owner_id, limit=limit, **filters)
        activities = await self._activity.read_many([record.view.id for record in page.items])
        places = await self._queue.of(page.items)
        return self._renderer.page(page.items, activities, places, next_cursor=page.next_cursor)
