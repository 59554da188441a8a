"""Tell where workspaces stand in the start queue, from one read that is at most 1 s old.

Read only if a workspace that is rendered waits. The estimate is a guess for people; nothing is decided by it.
"""

from collections.abc import Iterable, Mapping
from uuid import UUID

from codehub.api.schemas.activity import QueuePlace
from codehub.domain.limits import LimitKind, RunningLimits
from codehub.domain.start_queue import estimate, standings
from codehub.kit.batching import Shared
from codehub.kit.clock import monotonic
from codehub.store.db.session import Sessions
from codehub.store.workspaces import start_queue
from codehub.store.workspaces.records import WorkspaceRecord

CACHE_SECONDS = 1.0

Places = Mapping[UUID, QueuePlace]
NOBODY: Places = {}


class QueuePlaces:
    """The start queue as one API process shows it."""

    def __init__(self, reading: Sessions, *, limits: RunningLimits) -> None:
        self._reading = reading
        self._limits = limits
        self._loads: Shared[None, Places] = Shared(lambda _: self._load())
        self._known: Places = NOBODY
        self._read_at = float("-inf")

    async def of(self, records: Iterable[WorkspaceRecord], *, fresh: bool = False) -> Places:
        """Where those among ``records`` stand that wait. ``fresh``: past the cache."""
        waiting = [record.view for record in records if record.view.is_queued]
        if not waiting:
            return NOBODY
        is_old = monotonic() - self._read_at > CACHE_SECONDS
        if fresh or is_old or any(view.id not in self._known for view in waiting):
            self._known = await self._loads.get(None)
            self._read_at = monotonic()
        return self._known

    async def _load(self) -> Places:
        async with self._reading() as session:
            queue = await start_queue.load_start_queue(session)
            ages = await start_queue.running_ages(session)
        owners = {each.workspace_id: each.owner_id for each in queue.queued}
        found: dict[UUID, QueuePlace] = {}
        for each, standing in standings(queue, self._limits).items():
            running = ages.get(owners[each] if standing.limit is LimitKind.USER else None)
            wait = estimate(standing.place, running) if running is not None else None
            found[each] = {
                "place": standing.place,
                "limit": standing.limit,
                "since": standing.since,
                "estimated_seconds": round(wait.total_seconds()) if wait is not None else None,
            }
        return found
