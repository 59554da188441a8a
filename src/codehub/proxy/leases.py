"""Telling the rest of CodeHub that a workspace is in use (spec 06), without asking Redis per request.

The hot path only counts in memory. A background task turns the counts into port calls: every WebSocket
holds a lease of its own, all requests in flight of one workspace share one (kept a few seconds beyond the
last, so that a page load is one lease, not fifty), and requests touch the idle timer at most once in ten
seconds. Leases are renewed every 30 s and expire after 90: what this process held when it was killed
expires by itself. A call that fails is made again on the next turn. While they fail, the proxy says "in use"
through the service layer instead: of a lease that Redis has never heard of at once, because nothing else
keeps that workspace awake, and of everything after 30 s, well before the leases Redis knows expire.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import structlog

from codehub.proxy.interfaces import Activity, Use
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import ProxySettings

log = structlog.get_logger(__name__)

TURN = 1.0
LINGER = 5.0
OUTAGE = 30.0
PARALLEL = 16

Lease = tuple[UUID, str, Use]
Call = Callable[[], Awaitable[None]]


class Requests:
    """The requests of one workspace. ``began`` and ``ended`` are all the hot path calls."""

    __slots__ = ("__weakref__", "_book", "ended_at", "in_flight", "touched_at", "workspace_id")

    def __init__(self, book: "LeaseTracker", workspace_id: UUID) -> None:
        self._book = book
        self.workspace_id = workspace_id
        self.in_flight = 0
        self.ended_at = 0.0
        self.touched_at = float("-inf")

    def began(self, now: float) -> None:
        self.in_flight += 1
        if now - self.touched_at >= self._book.touch_interval:
            self.touched_at = now
            self._book.note(self)

    def ended(self, now: float) -> None:
        self.in_flight -= 1
        self.ended_at = now


class LeaseTracker:
    def __init__(self, port: Activity, settings: ProxySettings, metrics: Metrics) -> None:
        self._port = port
        self._metrics = metrics
        self._node = uuid4().hex[:12]
        self._count = 0
        self.touch_interval = settings.touch_interval
        self._renewal = settings.lease_renewal
        # One object per workspace, however many connections hold it; kept here while it matters.
        self._known: WeakValueDictionary[UUID, Requests] = WeakValueDictionary()
        self._active: dict[UUID, Requests] = {}
        self._held: dict[Lease, float] = {}  # wanted and taken, with the time of the last renewal
        self._to_take: set[Lease] = set()
        self._to_release: set[Lease] = set()
        self._to_touch: set[UUID] = set()
        self._news = asyncio.Event()
        self._looked_at = float("-inf")
        self._failing_since: float | None = None
        self._unheard: set[Lease] = set()  # wanted, and neither Redis nor PostgreSQL knows
        self._vouched: set[Lease] = set()  # wanted, and only PostgreSQL knows
        self._loop = asyncio.get_running_loop()

    def requests(self, workspace_id: UUID) -> Requests:
        requests = self._known.get(workspace_id)
        if requests is None:
            requests = self._known[workspace_id] = Requests(self, workspace_id)
        return requests

    def note(self, requests: Requests) -> None:
        """A request began, the first in a while."""
        self._active[requests.workspace_id] = requests
        self._to_touch.add(requests.workspace_id)
        self._want(self._requests_lease(requests.workspace_id))

    def socket_opened(self, workspace_id: UUID) -> str:
        """From its handshake on: that is no request besides."""
        self._count += 1
        conn_id = f"{self._node}-{self._count}"
        self._want((workspace_id, conn_id, Use.WEBSOCKET))
        return conn_id

    def socket_closed(self, workspace_id: UUID, conn_id: str) -> None:
        self._give_up((workspace_id, conn_id, Use.WEBSOCKET))

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.turn()
            try:
                # With nothing to renew, to end or to say again, only news can change anything.
                async with asyncio.timeout(TURN if self._is_watching() else None):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def turn(self) -> None:
        """Make the calls that are due. News cost what they are; the whole is looked at once a second."""
        self._news.clear()
        now = self._loop.time()
        if now - self._looked_at >= TURN:
            self._looked_at = now
            self._look_at_all(now)
        take, self._to_take = self._to_take, set()
        release, self._to_release = self._to_release, set()
        touch, self._to_touch = self._to_touch, set()
        calls: list[Call] = [partial(self._take, lease) for lease in take]
        calls += [partial(self._release, lease) for lease in release]
        calls += [partial(self._touch, workspace_id) for workspace_id in touch]
        if calls:
            try:
                await self._make(calls)
            except asyncio.CancelledError:  # the proxy stops: any of them may be taken, and none is wanted
                for lease in take | release:
                    self._give_up(lease)
                raise
        await self._report_outage()

    async def close(self) -> None:
        """Give every lease back, so that idle times count from now."""
        for lease in [*self._held, *self._to_take]:
            self._give_up(lease)
        self._active.clear()
        await self.turn()

    def _requests_lease(self, workspace_id: UUID) -> Lease:
        return workspace_id, f"{self._node}-http", Use.HTTP

    def _is_watching(self) -> bool:
        waiting = self._to_take or self._to_release or self._to_touch
        return bool(self._held or self._active or waiting or self._failing_since is not None)

    def _want(self, lease: Lease) -> None:
        self._to_release.discard(lease)
        if lease not in self._held:
            self._to_take.add(lease)
        self._news.set()

    def _give_up(self, lease: Lease) -> None:
        self._to_take.discard(lease)
        self._held.pop(lease, None)
        self._forget_failure(lease)
        self._to_release.add(lease)  # also if taking it is under way, or failed half-way
        self._news.set()

    def _look_at_all(self, now: float) -> None:
        self._to_take |= {lease for lease, at in self._held.items() if now - at >= self._renewal}
        for workspace_id, requests in list(self._active.items()):
            lease = self._requests_lease(workspace_id)
            if requests.in_flight:
                self._want(lease)
            elif now - requests.ended_at >= LINGER:
                if lease in self._held:
                    self._give_up(lease)
                if now - requests.touched_at >= self.touch_interval:
                    del self._active[workspace_id]

    async def _make(self, calls: list[Call]) -> None:
        gate = asyncio.Semaphore(PARALLEL)
        failures = 0

        async def one(call: Call) -> None:
            nonlocal failures
            async with gate:
                try:
                    await call()
                except Exception as error:  # noqa: BLE001 - whatever the port met: the next turn tries again
                    failures += 1
                    self._metrics.activity_failures_total += 1
                    if failures == 1 and self._failing_since is None:  # once for each outage
                        log.warning("activity not recorded", error=str(error))

        await asyncio.gather(*(one(call) for call in calls))
        if not failures:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._loop.time()

    async def _take(self, lease: Lease) -> None:
        try:
            await self._port.lease(*lease)
        except Exception:
            if lease not in self._to_release:
                self._to_take.add(lease)
                if lease not in self._held and lease not in self._vouched:
                    self._unheard.add(lease)
            raise
        self._forget_failure(lease)
        if lease not in self._to_release:  # given up meanwhile: the next turn returns it
            self._held[lease] = self._loop.time()

    def _forget_failure(self, lease: Lease) -> None:
        self._unheard.discard(lease)
        self._vouched.discard(lease)

    async def _release(self, lease: Lease) -> None:
        try:
            await self._port.release(*lease)
        except Exception:
            self._to_release.add(lease)
            raise

    async def _touch(self, workspace_id: UUID) -> None:
        try:
            await self._port.touch(workspace_id)
        except Exception:
            self._to_touch.add(workspace_id)
            raise

    async def _report_outage(self) -> None:
        now = self._loop.time()
        lasts = self._failing_since is not None and now - self._failing_since >= OUTAGE
        unheard = set(self._unheard)
        if not (lasts or unheard):
            return
        in_use = {lease[0] for lease in unheard}
        if lasts:
            in_use |= {lease[0] for lease in [*self._held, *self._to_take]} | self._to_touch
        try:
            await self._port.mark_active(in_use)
        except Exception as error:  # noqa: BLE001 - PostgreSQL is away too; both are tried again
            log.warning("activity not recorded anywhere", error=str(error))
        else:
            self._vouched |= unheard & self._unheard
            self._unheard -= unheard
            if lasts:
                self._failing_since = now  # say it again in 30 s if it lasts
