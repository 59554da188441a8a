"""Keeps the leases of one proxy process alive, so that no connection ever waits for Redis.

The proxy says what happens (``take``, ``release``, ``touch``: plain calls that cannot fail) and one task
carries it to Redis: what is new at once, every lease again each ``renew_seconds``, pipelined. One
task also means one order: a renewal can never overtake a release and leave a ghost.

A request shorter than the pace of the task is taken and released in between and costs Redis a touch, not
two calls. Touches of a workspace are coalesced for a fraction of its idle period.

While Redis is away everything is kept, with its age, and told when Redis is back. If that lasts
(``unreachable_for_seconds``), the proxy says ``in_use()`` to PostgreSQL instead. If this process dies, its
leases expire after ``lease_seconds`` and the idle timer runs on from there.
"""

import asyncio
from contextlib import suppress
from dataclasses import replace
from uuid import UUID, uuid4

from codehub.kit.clock import boottime
from codehub.signals.activity import ActivityKind, ActivityLog, Ended, Lease, Touch
from codehub.signals.connection import RedisUnavailable

RENEW_SECONDS = 30.0
PACE_SECONDS = 0.05
RETRY_SECONDS = 1.0
MAX_TOUCH_INTERVAL_SECONDS = 10.0


class LeaseKeeper:
    """Ages are measured on the boot clock: a process that was frozen knows how long it was away."""

    def __init__(self, activity: ActivityLog, *, renew_seconds: float = RENEW_SECONDS) -> None:
        self._activity = activity
        self._renew_seconds = renew_seconds
        self._held: dict[str, Lease] = {}
        self._untold: set[str] = set()  # held, and Redis has not heard of it yet
        self._ended: dict[str, tuple[Lease, float]] = {}  # lease and when it ended
        self._touched: dict[UUID, tuple[Touch, float]] = {}  # to be told: the last touch and when
        self._told_at: dict[UUID, float] = {}
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._reached_at = boottime()
        self._reachable = True
        self._renewed_at = boottime()

    @property
    def unreachable_for_seconds(self) -> float:
        """0 while Redis answers; otherwise how long ago it last did."""
        return 0.0 if self._reachable else boottime() - self._reached_at

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="lease keeper")

    def take(
        self, workspace_id: UUID, *, ttl_seconds: float, kind: ActivityKind = ActivityKind.WEBSOCKET
    ) -> Lease:
        """A connection or request has begun."""
        lease = Lease(uuid4().hex, workspace_id, ttl_seconds, kind)
        self._held[lease.id] = lease
        self._untold.add(lease.id)
        self._news.set()
        return lease

    def release(self, lease: Lease) -> None:
        """It is over. Saying so twice does nothing."""
        if self._held.pop(lease.id, None) is None:
            return
        if lease.id in self._untold:
            self._untold.discard(lease.id)
            self.touch(lease.workspace_id, ttl_seconds=lease.ttl_seconds, kind=lease.kind)
        else:
            self._ended[lease.id] = (lease, boottime())
            self._news.set()

    def touch(
        self, workspace_id: UUID, *, ttl_seconds: float, kind: ActivityKind = ActivityKind.HTTP
    ) -> None:
        """Something happened that is already over."""
        waiting = workspace_id in self._touched
        self._touched[workspace_id] = (Touch(workspace_id, ttl_seconds, kind), boottime())
        if not waiting:
            self._tell_in_time(workspace_id)

    def in_use(self) -> dict[UUID, float]:
        """Workspace → for how many seconds from now it counts as in use, by what this process saw."""
        now = boottime()
        busy: dict[UUID, float] = {}
        for touch, at in self._touched.values():
            busy[touch.workspace_id] = touch.ttl_seconds - (now - at)
        for lease, at in self._ended.values():
            left = lease.ttl_seconds - (now - at)
            busy[lease.workspace_id] = max(left, busy.get(lease.workspace_id, 0.0))
        for lease in self._held.values():
            busy[lease.workspace_id] = lease.ttl_seconds + self._activity.lease_seconds
        return {workspace_id: left for workspace_id, left in busy.items() if left > 0}

    async def close(self) -> None:
        """Release everything: connections end with their process. Bounded by Redis's time-outs."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
        for lease in list(self._held.values()):
            self.release(lease)
        with suppress(RedisUnavailable):  # then they expire
            await self._tell(everything=True)

    async def _run(self) -> None:
        while True:
            # Renewing is also how an idle proxy learns that Redis has gone.
            with suppress(TimeoutError):
                async with asyncio.timeout(self._seconds_to_renewal()):
                    await self._news.wait()
            self._news.clear()
            try:
                await self._tell()
            except RedisUnavailable:
                await asyncio.sleep(RETRY_SECONDS)
            else:
                await asyncio.sleep(PACE_SECONDS)

    def _seconds_to_renewal(self) -> float:
        return max(0.0, self._renewed_at + self._renew_seconds - boottime())

    def _seconds_to_touch(self, workspace_id: UUID) -> float:
        """Until this workspace's touch is worth telling: the last one is too recent to matter before."""
        told_at = self._told_at.get(workspace_id)
        if told_at is None:
            return 0.0
        interval = min(MAX_TOUCH_INTERVAL_SECONDS, self._touched[workspace_id][0].ttl_seconds / 4)
        return told_at + interval - boottime()

    def _tell_in_time(self, workspace_id: UUID) -> None:
        delay = self._seconds_to_touch(workspace_id)
        if delay <= 0:
            self._news.set()
        else:
            asyncio.get_running_loop().call_later(delay, self._news.set)

    async def _tell(self, *, everything: bool = False) -> None:
        """What changes while it is under way is told by the next one."""
        now = boottime()
        renewing = everything or self._seconds_to_renewal() == 0.0
        touched = {
            workspace_id: entry
            for workspace_id, entry in self._touched.items()
            if everything or self._seconds_to_touch(workspace_id) <= 0
        }
        ended = dict(self._ended)
        leases = [lease for lease in self._held.values() if renewing or lease.id in self._untold]
        # From here on Redis may know these leases, whatever becomes of this call: their release must
        # be told too, even if the call is cancelled or times out.
        self._untold.clear()
        try:
            await self._activity.write(
                touches=[replace(touch, age_seconds=now - at) for touch, at in touched.values()],
                # One that ended longer ago than a lease lasts is gone from Redis by itself; telling it
                # still starts the idle timer where it belongs.
                ended=[Ended(lease, age_seconds=now - at) for lease, at in ended.values()],
                leases=leases,
            )
            if not (touched or ended or leases):
                await self._activity.identity()  # nothing to say: ask whether Redis is there
        except RedisUnavailable:
            self._reachable = False
            self._renewed_at = -self._renew_seconds  # whatever was lost, all of it is told again
            self._ended = {
                key: (lease, at) for key, (lease, at) in self._ended.items() if self._matters(lease, at)
            }
            raise
        self._reachable, self._reached_at = True, boottime()
        self._forget_told(now, ended=ended, touched=touched)
        if renewing:
            self._renewed_at = now

    def _matters(self, lease: Lease, ended_at: float) -> bool:
        """Neither the lease nor the idle timer it would start can still be running: nothing to tell."""
        return boottime() - ended_at < max(self._activity.lease_seconds, lease.ttl_seconds)

    def _forget_told(
        self,
        now: float,
        *,
        ended: dict[str, tuple[Lease, float]],
        touched: dict[UUID, tuple[Touch, float]],
    ) -> None:
        for lease_id in ended:
            self._ended.pop(lease_id, None)
        self._told_at = {
            each: at for each, at in self._told_at.items() if now - at < MAX_TOUCH_INTERVAL_SECONDS
        }
        for workspace_id, entry in touched.items():
            self._told_at[workspace_id] = now
            if self._touched.get(workspace_id) is entry:
                del self._touched[workspace_id]
            else:  # touched again meanwhile
                self._tell_in_time(workspace_id)
