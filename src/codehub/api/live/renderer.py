"""Render workspaces for event streams, once for all subscribers.

A notice only says *that* a workspace changed. All streams of this process that receive it at the same time share
one query and one rendering, so a thousand browsers cost one read of the database.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from codehub.api.live.activity import ActivityCache
from codehub.api.queue_places import QueuePlaces
from codehub.api.rendering import WorkspaceRenderer
from codehub.kit.batching import Batched
from codehub.kit.cache import TtlCache
from codehub.store.workspaces.records import WorkspaceRecord

MAX_CACHED = 2048


@dataclass(frozen=True)
class RenderedWorkspace:
    """One version of one workspace as JSON, the same for all who may see it."""

    workspace_id: UUID
    version: int
    is_deleted: bool
    error_at: datetime | None  # since when there is an error_info
    json: bytes

    def event(self, name: str) -> bytes:
        """Format it as a server-sent event."""
        head = f"event: {name}\nid: {self.workspace_id}:{self.version}\ndata: "
        return b"%b%b\n\n" % (head.encode(), self.json)


class EventRenderer:
    """Reads and renders workspaces in batches; caches the newest rendering of each."""

    def __init__(
        self,
        records: Batched[UUID, WorkspaceRecord],
        *,
        activity: ActivityCache,
        queue: QueuePlaces,
        renderer: WorkspaceRenderer,
    ) -> None:
        self._records = records
        self._activity = activity
        self._queue = queue
        self._renderer = renderer
        # Pays for: control-plane CPU of 50 starts. Streams that are notified one after another share a rendering.
        self._newest: TtlCache[UUID, RenderedWorkspace] = TtlCache(size=MAX_CACHED)
        self._loads: Batched[UUID, RenderedWorkspace] = Batched(self._load)
        self._activity_loads: Batched[UUID, bytes] = Batched(self._load_activities)

    async def load(self, workspace_id: UUID) -> RenderedWorkspace | None:
        """Read and render the current row. None: there is no such row."""
        return await self._loads.get(workspace_id)

    async def at_least(self, versions: Mapping[UUID, int]) -> Mapping[UUID, RenderedWorkspace]:
        """Return these versions or newer ones, from the cache where it has them.

        Workspaces without a row are left out.
        """
        newest = {each: self._newest.get(each) for each in versions}
        known = {
            each: frame
            for each, frame in newest.items()
            if frame is not None and frame.version >= versions[each]
        }
        missing = [each for each in versions if each not in known]
        return known | await self._loads.get_many(missing) if missing else known

    async def activities(self, ids: Collection[UUID]) -> Mapping[UUID, bytes]:
        """Read connections and next transition, as JSON.

        Workspaces without a row are left out.
        """
        return await self._activity_loads.get_many(ids)

    async def render(self, records: Sequence[WorkspaceRecord]) -> list[RenderedWorkspace]:
        """Render records that were just read, in the same order."""
        activities = await self._activity.read_many([record.view.id for record in records])
        places = await self._queue.of(records)
        rendered = [_rendered(record, self._renderer.one(record, activities, places)) for record in records]
        for each in rendered:
            self._newest.put(each.workspace_id, each)
        return rendered

    async def _load(self, ids: Sequence[UUID]) -> Mapping[UUID, RenderedWorkspace]:
        found = await self._records.get_many(ids)
        return {frame.workspace_id: frame for frame in await self.render(list(found.values()))}

    async def _load_activities(self, ids: Sequence[UUID]) -> Mapping[UUID, bytes]:
        found = await self._records.get_many(ids)
        activities = await self._activity.read_now(list(found))
        places = await self._queue.of(found.values(), fresh=True)
        return {each: self._renderer.activity(record, activities, places) for each, record in found.items()}


def _rendered(record: WorkspaceRecord, json: bytes) -> RenderedWorkspace:
    error = record.view.error_info
    return RenderedWorkspace(
        workspace_id=record.view.id,
        version=record.view.version,
        is_deleted=record.status == "deleted",
        error_at=error.occurred_at if error else None,
        json=json,
    )
