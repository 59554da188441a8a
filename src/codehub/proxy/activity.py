"""Telling the rest of CodeHub that a workspace is in use (spec 06), without asking Redis per request.

The hot path only counts in memory. A background task turns the counts into port calls: every WebSocket
holds a lease of its own, all requests in flight of one workspace share one (kept a few seconds beyond the
last, so that a page load is one lease, not fifty), and requests touch the idle timer at most once in ten
seconds. Leases are renewed every 30 s and expire after 90: what this process held when it was killed
expires by itself. A call that fails is made again on the next turn; if all fail for 30 s, the proxy says
"in use" through the service layer instead.
"""

import asyncio
from collections.abc import Awaitable, Callable
from uuid import UUID, uuid4

import structlog

from codehub.proxy.metrics import Metrics
from codehub.proxy.ports import Activity
from codehub.proxy.settings import ProxySettings

log = structlog.get_logger(__name__)

TURN = 1.0
LINGER = 5.0
OUTAGE = 30.0
PARALLEL = 16

Lease = tuple[UUID, str]


class Requests:
    """The requests of one workspace. ``began`` and ``ended`` are all the hot path calls."""

    __slots__ = ("_book", "ended_at", "in_flight", "touched_at", "workspace_id")

    def __init__(self, book: "ActivityBook", workspace_id: UUID) -> None:
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


class ActivityBook:
    def __init__(self, port: Activity, settings: ProxySettings, metrics: Metrics) -> None:
        self._port = port
        self._settings = settings
        self._metrics = metrics
        self._node = uuid4().hex[:12]
        self._count = 0
        self.touch_interval = settings.touch_interval
        self._requests: dict[UUID, Requests] = {}
        self._wanted: set[Lease] = set()
        self._held: dict[Lease, float] = {}  # when last renewed
        self._touches: set[UUID] = set()
        self._news = asyncio.Event()
        self._failing_since: float | None = None
        self._loop = asyncio.get_running_loop()

    def requests(self, workspace_id: UUID) -> Requests:
        """To be asked for anew after a while at rest: a workspace nobody uses is not kept."""
        requests = self._requests.get(workspace_id)
        if requests is None:
            requests = self._requests[workspace_id] = Requests(self, workspace_id)
        return requests

    def note(self, requests: Requests) -> None:
        """A request began, the first in a while."""
        self._requests[requests.workspace_id] = requests
        self._touches.add(requests.workspace_id)
        self._wanted.add((requests.workspace_id, f"{self._node}-http"))
        self._news.set()

    def socket_opened(self, workspace_id: UUID) -> str:
        self._count += 1
        conn_id = f"{self._node}-{self._count}"
        self._wanted.add((workspace_id, conn_id))
        self._news.set()
        return conn_id

    def socket_closed(self, workspace_id: UUID, conn_id: str) -> None:
        self._wanted.discard((workspace_id, conn_id))
        self._news.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self.turn()
            try:
                async with asyncio.timeout(TURN):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def turn(self) -> None:
        self._news.clear()
        now = self._loop.time()
        self._end_quiet(now)
        touches, self._touches = self._touches, set()
        oldest = now - self._settings.lease_renewal
        due = [lease for lease in self._wanted if self._held.get(lease, float("-inf")) <= oldest]
        over = [lease for lease in self._held if lease not in self._wanted]
        calls: list[Callable[[], Awaitable[None]]] = []
        calls += [lambda lease=lease: self._take(lease) for lease in due]  # type: ignore[misc]
        calls += [lambda lease=lease: self._release(lease) for lease in over]  # type: ignore[misc]
        calls += [lambda key=key: self._touch(key) for key in touches]  # type: ignore[misc]
        if calls:
            await self._call_all(calls)
        await self._report_outage()

    async def close(self) -> None:
        """Give every lease back, so that idle times count from now."""
        self._wanted.clear()
        await self.turn()

    def _end_quiet(self, now: float) -> None:
        for workspace_id, requests in list(self._requests.items()):
            lease = (workspace_id, f"{self._node}-http")
            if requests.in_flight:
                self._wanted.add(lease)
            elif now - requests.ended_at >= LINGER:
                self._wanted.discard(lease)
                if now - requests.touched_at >= self._settings.touch_interval:
                    del self._requests[workspace_id]

    async def _call_all(self, calls: list[Callable[[], Awaitable[None]]]) -> None:
        gate = asyncio.Semaphore(PARALLEL)
        failures = 0

        async def one(call: Callable[[], Awaitable[None]]) -> None:
            nonlocal failures
            async with gate:
                try:
                    await call()
                except Exception as error:  # noqa: BLE001 - whatever the port met: the next turn tries again
                    failures += 1
                    self._metrics.activity_failures_total += 1
                    log.warning("activity not recorded", error=str(error))

        await asyncio.gather(*(one(call) for call in calls))
        if not failures:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._loop.time()

    async def _take(self, lease: Lease) -> None:
        await self._port.lease(*lease)
        self._held[lease] = self._loop.time()

    async def _release(self, lease: Lease) -> None:
        await self._port.release(*lease)
        self._held.pop(lease, None)

    async def _touch(self, workspace_id: UUID) -> None:
        try:
            await self._port.touch(workspace_id)
        except Exception:
            self._touches.add(workspace_id)
            raise

    async def _report_outage(self) -> None:
        now = self._loop.time()
        if self._failing_since is None or now - self._failing_since < OUTAGE:
            return
        in_use = {workspace_id for workspace_id, _ in self._wanted} | self._touches
        try:
            await self._port.mark_active(in_use)
        except Exception as error:  # noqa: BLE001 - PostgreSQL is away too; both are tried again
            log.warning("activity not recorded anywhere", error=str(error))
        else:
            self._failing_since = now  # say it again in 30 s if it lasts
