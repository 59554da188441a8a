"""What the proxy says about use: leases and idle timers in Redis, each with its workspace's own TTL."""

from collections.abc import Collection, Mapping, Sequence
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
    """How long each workspace stays awake unused, as the idle timers need it.

    The last connection may end long after the last request, and the person may have changed their mind in
    between: what a change was reported for is read again before it is used.
    """

    def __init__(self, records: Batched[UUID, WorkspaceRecord]) -> None:
        self._records = records
        self._known: dict[UUID, int] = {}
        self._owners: dict[UUID, UUID] = {}
        self._sure: set[UUID] = set()
        self.doubts = 0  # grows with each: what was read before one proves nothing after it

    async def get(self, workspace_id: UUID) -> float:
        if workspace_id not in self._sure:
            doubts = self.doubts
            with suppress(*DATABASE_FAILED):  # then what was known last
                record = await self._records.get(workspace_id)
                if record is not None:
                    self.note(record.view, sure=doubts == self.doubts)
        return self.recall(workspace_id)

    def recall(self, workspace_id: UUID) -> float:
        # TTL 0 never sleeps; the timer is only shown.
        return float(self._known.get(workspace_id) or DEFAULT_TTL)

    def owner(self, workspace_id: UUID) -> UUID | None:
        return self._owners.get(workspace_id)

    def note(self, view: WorkspaceView, *, sure: bool) -> None:
        """What was read; ``sure`` if no doubt came since before it was asked for."""
        if len(self._known) > MANY_TTLS:
            self._known.clear()
            self._owners.clear()
            self._sure.clear()
        self._known[view.id] = view.standby_ttl_seconds
        self._owners[view.id] = view.owner_id
        if sure:
            self._sure.add(view.id)

    def doubt(self, workspace_id: UUID | None = None) -> None:
        """Something changed about it; None: about anything."""
        self.doubts += 1
        if workspace_id is None:
            self._sure.clear()
        else:
            self._sure.discard(workspace_id)


class ProxyActivity:
    """The lease set and idle timer, with each workspace's own TTL; PostgreSQL while Redis is away.

    A lease that is new, or over, is news for whoever looks at the workspace; one that is renewed is not.
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
        # Fifty people who arrive together are one call to Redis. Each is safe to repeat, if it fails.
        self._writing: Batched[Touch | Ended | Lease, bool] = Batched(self._write)

    async def lease(self, workspace_id: UUID, conn_id: str, use: Use) -> None:
        await self._writing.get(await self._lease(workspace_id, conn_id, use))
        if (workspace_id, conn_id) not in self._held:
            self._held.add((workspace_id, conn_id))
            self._tell(workspace_id)

    async def release(self, workspace_id: UUID, conn_id: str, use: Use) -> None:
        await self._writing.get(Ended(await self._lease(workspace_id, conn_id, use)))
        self._held.discard((workspace_id, conn_id))
        self._tell(workspace_id)

    async def touch(self, workspace_id: UUID) -> None:
        await self._writing.get(Touch(workspace_id, await self._ttls.get(workspace_id)))

    async def _lease(self, workspace_id: UUID, conn_id: str, use: Use) -> Lease:
        return Lease(conn_id, workspace_id, await self._ttls.get(workspace_id), ActivityKind(use.value))

    async def _write(self, said: Sequence[Touch | Ended | Lease]) -> Mapping[Touch | Ended | Lease, bool]:
        await self._activity.write(
            touches=[each for each in said if isinstance(each, Touch)],
            ended=[each for each in said if isinstance(each, Ended)],
            leases=[each for each in said if isinstance(each, Lease)],
        )
        return dict.fromkeys(said, True)

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        longest = max((self._ttls.recall(each) for each in workspace_ids), default=0)
        async with self._sessions() as session, session.begin():
            await access.mark_in_use(session, workspace_ids, for_=timedelta(seconds=longest + LEASE_SECONDS))

    def _tell(self, workspace_id: UUID) -> None:
        owner_id = self._ttls.owner(workspace_id)
        if owner_id is not None:  # never read: then nobody was let in either
            self._news.changed(workspace_id, owner_id)
