"""Admit workspaces that wait for a running place, and tell people when they moved up.

Part of the TTL manager, which looks each second while somebody waits. What frees a place does not look at the queue.
Losing every hint, or this process at any instruction, makes an admission late and never wrong: the queue is in the
rows, and ``services/places.admit`` decides under the limits' lock.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

import structlog
from prometheus_client import Counter, Gauge

from codehub.coordinators.control_store import TtlStore
from codehub.coordinators.leadership import Leadership
from codehub.domain.limits import LimitKind, RunningLimits
from codehub.domain.start_queue import StartQueue, admissible, standings
from codehub.services import places

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0
"""How often the queue is looked at while somebody waits."""

QUEUED = Gauge("codehub_start_queue_length", "Workspaces that wait for a running place")
ADMITTED = Counter("codehub_start_queue_admitted_total", "Workspaces that waited and were given a place")

Moved = Callable[[UUID, UUID], Awaitable[object]]
"""Called with a workspace and its owner when its place in the queue has changed."""


class QueueAdmission:
    """Looks at the start queue for one coordinator."""

    def __init__(
        self, *, store: TtlStore, leadership: Leadership, limits: RunningLimits, on_moved: Moved | None = None
    ) -> None:
        self._store = store
        self._lead = leadership
        self._limits = limits
        self._on_moved = on_moved
        self._told: dict[UUID, tuple[int, LimitKind]] = {}
        self.waits = False

    def forget(self) -> None:
        """Forget what was told: another leader may have told something else since."""
        self._told = {}
        self.waits = False

    async def look(self) -> int:
        """Admit who is next as far as there are places; return how many were admitted."""
        queue = await self._load()
        admitted: list[UUID] = []
        if admissible(queue, self._limits):
            # A crash before the commit: nobody was admitted, and the next leader looks at the same queue.
            async with self._lead.transaction() as session:
                admitted, _ = await places.admit(session, limits=self._limits, store=self._store)
            queue = await self._load()
        self.waits = bool(queue)
        QUEUED.set(len(queue.queued))
        if admitted:
            ADMITTED.inc(len(admitted))
            log.info("admitted", workspace_ids=[str(each) for each in admitted], waiting=len(queue.queued))
        await self._tell(queue)
        return len(admitted)

    async def _load(self) -> StartQueue:
        """Read the queue outside the limits' lock: mostly nobody waits, and nobody is held up."""
        async with self._lead.statement() as session:
            return await self._store.load_start_queue(session)

    async def _tell(self, queue: StartQueue) -> None:
        owners = {each.workspace_id: each.owner_id for each in queue.queued}
        found = {
            each: (standing.place, standing.limit)
            for each, standing in standings(queue, self._limits).items()
        }
        moved = [each for each, standing in found.items() if self._told.get(each) != standing]
        self._told = found
        if self._on_moved is not None:
            for each in moved:
                await self._on_moved(each, owners[each])
