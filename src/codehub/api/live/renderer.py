"""Workspaces rendered for event streams, once for everybody.

A notice only says *that* a workspace changed. All streams of this process that hear of it in the same
moment share one query and one rendering, so a thousand browsers cost one look at the database.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from codehub.api.live.activity import ActivityCache
from codehub.api.rendering import WorkspaceRenderer
from codehub.kit.batching import Batched
from codehub.kit.cache import TtlCache
from codehub.store.workspaces.records import WorkspaceRecord

MAX_CACHED = 2048


@dataclass(frozen=True)
class RenderedWorkspace:
    """One version of one workspace, ready for anybody who may see it."""

    workspace_id: UUID
    version: int
    is_deleted: bool
    error_at: datetime | None  # since when there is an error_info
    json: str

    def event(self, name: str) -> bytes:
        return f"event: {name}\nid: {self.workspace_id}:{self.version}\ndata: {self.json}\n\n".encode()


class EventRenderer:
    def __init__(
        self,
        records: Batched[UUID, WorkspaceRecord],
        *,
        activity: ActivityCache,
        renderer: WorkspaceRenderer,
    ) -> None:
        self._records = records
        self._activity = activity
        self._renderer = renderer
        self._newest: TtlCache[UUID, RenderedWorkspace] = TtlCache(size=MAX_CACHED)
        self._loading: Batched[UUID, RenderedWorkspace] = Batched(self._load)
        self._asking: Batched[UUID, str] = Batched(self._load_activities)

    async def load(self, workspace_id: UUID) -> RenderedWorkspace | None:
        """As it is in the database now. None: there is no such row."""
        return await self._loading.get(workspace_id)

    async def at_least(self, versions: Mapping[UUID, int]) -> Mapping[UUID, RenderedWorkspace]:
        """These versions or newer ones, from memory where somebody else has asked already.

        What has no row any more is left out.
        """
        newest = {each: self._newest.get(each) for each in versions}
        known = {
            each: frame
            for each, frame in newest.items()
            if frame is not None and frame.version >= versions[each]
        }
        asked = [each for each in versions if each not in known]
        return known | await self._loading.get_many(asked) if asked else known

    async def activities(self, ids: Collection[UUID]) -> Mapping[UUID, str]:
        """Who is connected and what happens next, as JSON. What has no row any more is left out."""
        return await self._asking.get_many(ids)

    async def render(self, records: Sequence[WorkspaceRecord]) -> list[RenderedWorkspace]:
        """Frames of records that were just read, in the same order."""
        activities = await self._activity.read_many([record.view.id for record in records])
        rendered = [_rendered(record, self._renderer.one(record, activities)) for record in records]
        for each in rendered:
            self._newest.put(each.workspace_id, each)
        return rendered

    async def _load(self, ids: Sequence[UUID]) -> Mapping[UUID, RenderedWorkspace]:
        found = await self._records.get_many(ids)
        return {frame.workspace_id: frame for frame in await self.render(list(found.values()))}

    async def _load_activities(self, ids: Sequence[UUID]) -> Mapping[UUID, str]:
        found = await self._records.get_many(ids)
        activities = await self._activity.read_now(list(found))
        return {each: self._renderer.activity(record, activities) for each, record in found.items()}


def _rendered(record: WorkspaceRecord, text: str) -> RenderedWorkspace:
    error = record.view.error_info
    return RenderedWorkspace(
        workspace_id=record.view.id,
        version=record.view.version,
        is_deleted=record.status == "deleted",
        error_at=error.occurred_at if error else None,
        json=text,
    )
