"""Write the proxy's leases and idle timers to Redis, with each workspace's TTL."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from codehub.domain.ttl import LEASE_SECONDS
from codehub.domain.workspace import WorkspaceView
from codehub.kit.batching import Batched
from codehub.proxy.interfaces import Use
from codehub.services import access
from codehub.signals.activity import ActivityKind, ActivityLog, Ended, Lease, Touch
from codehub.signals.activity_publisher import ActivityPublisher
from codehub.store.db.session import Sessions
from codehub.store.errors import DATABASE_FAILED
from codehub.store.workspaces.records import WorkspaceRecord

MANY_TTLS = 10_000
DEFAULT_TTL = 300


class StandbyTtls:
    """Cache of each workspace's standby TTL, for the idle timers.

    The last connection may end long after the last request, and the TTL may have been changed in between: after
    a reported change it is read again before it is used.
    """

    def __init__(self, find: Callable[[UUID], Awaitable[WorkspaceRecord | None]]) -> None:
        self._find = find
        self._known: dict[UUID, int] = {}
        self._owners: dict[UUID, UUID] = {}
        self._current: set[UUID] = set()
        self.invalidations = 0  # counts them: a row read before one may be out of date after it

    async def get(self, workspace_id: UUID) -> float:
        if workspace_id not in self._current:
            invalidations = self.invalidations
            with suppress(*DATABASE_FAILED):  # then the last known value is used
                record = await self._find(workspace_id)
                if record is not None:
                    self.note(record.view, current=invalidations == self.invalidations)
        return self.last_known(workspace_id)

    def last_known(self, workspace_id: UUID) -> float:
        # With TTL 0 nothing is stopped; the timer is only shown.
        return float(self._known.get(workspace_id) or DEFAULT_TTL)

    def owner(self, workspace_id: UUID) -> UUID | None:
        return self._owners.get(workspace_id)

    def note(self, view: WorkspaceView, *, current: bool) -> None:
        """Cache a row that was read; ``current``: no invalidation since the read began."""
        if len(self._known) > MANY_TTLS:
            self._known.clear()
            self._owners.clear()
            self._current.clear()
        self._known[view.id] = view.standby_ttl_seconds
        self._owners[view.id] = view.owner_id
        if current:
            self._current.add(view.id)

    def invalidate(self, workspace_id: UUID | None = None) -> None:
        """Invalidate one workspace, or all (None)."""
        self.invalidations += 1
        if workspace_id is None:
            self._current.clear()
        else:
            self._current.discard(workspace_id)


class ProxyActivity:
    """Writes leases and idle timers to Redis, and to PostgreSQL while Redis is away.

    A lease that is new or over is published as a live event; a renewed one is not.
    """

    def __init__(
        self,
        activity: ActivityLog,
        sessions: Sessions,
        ttls: StandbyTtls,
        news: ActivityPublisher,
    ) -> None:
        self._activity = activity
        self._sessions = sessions
        self._ttls = ttls
        self._news = news
        self._held: set[tuple[UUID, str]] = set()
        # Concurrent writes are one call to Redis. Idempotent: each may be repeated if it fails.
        self._writing: Batched[Touch | Ended | Lease, bool] = Batched(self._write)

    async def lease(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None:
        await self._writing.get(await self._lease(workspace_id, conn_id, use, input_age))
        if (workspace_id, conn_id) not in self._held:
            self._held.add((workspace_id, conn_id))
            self._publish_change(workspace_id)

    async def release(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None:
        await self._writing.get(Ended(await self._lease(workspace_id, conn_id, use, input_age)))
        self._held.discard((workspace_id, conn_id))
        self._publish_change(workspace_id)

    async def touch(self, workspace_id: UUID, *, input_age: float | None = None) -> None:
        ttl_seconds = await self._ttls.get(workspace_id)
        await self._writing.get(Touch(workspace_id, ttl_seconds, input_age_seconds=input_age))
        if input_age is not None:
            self._publish_change(workspace_id)

    async def _lease(self, workspace_id: UUID, conn_id: str, use: Use, input_age: float | None) -> Lease:
        ttl_seconds = await self._ttls.get(workspace_id)
        return Lease(conn_id, workspace_id, ttl_seconds, ActivityKind(use.value), input_age)

    async def _write(self, writes: Sequence[Touch | Ended | Lease]) -> Mapping[Touch | Ended | Lease, bool]:
        await self._activity.write(
            touches=[each for each in writes if isinstance(each, Touch)],
            ended=[each for each in writes if isinstance(each, Ended)],
            leases=[each for each in writes if isinstance(each, Lease)],
        )
        return dict.fromkeys(writes, True)

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        longest = max((self._ttls.last_known(each) for each in workspace_ids), default=0)
        async with self._sessions() as session, session.begin():
            await access.mark_in_use(session, workspace_ids, for_=timedelta(seconds=longest + LEASE_SECONDS))

    def _publish_change(self, workspace_id: UUID) -> None:
        owner_id = self._ttls.owner(workspace_id)
        if owner_id is not None:  # never read: then no request was admitted either
            self._news.changed(workspace_id, owner_id)
