"""Record leases and activity of workspaces, in the background.

No request waits for Redis: the hot path only counts in memory. A task turns the counts into calls of
``ActivityRecorder``: every WebSocket holds a lease of its own, all requests in flight to one workspace share one (kept
for 5 s after the last, so that a page load is one lease, not fifty), and requests touch the idle timer at most
once in 10 s.

It also records when a person last caused something (*input*): a page opened, a change off the beat (``Beats``), or
frames that a WebSocket's ``Meter`` found to be. Each second it compares, and reports input at most once in 10 s; every
renewal repeats it, so that a Redis that lost its data learns it again. A WebSocket without a meter counts as input
all the time: what cannot be told keeps awake.

Leases are renewed every 30 s and expire after 90 s, so those of a killed process expire without a release. A
call that fails is repeated on the next turn. While calls fail, activity is recorded in PostgreSQL instead
(``mark_active``): for a lease that Redis never stored at once, because nothing else keeps that workspace
awake, and for everything after 30 s, before the leases that Redis has stored expire.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID, uuid4
from weakref import WeakValueDictionary

import structlog

from codehub.proxy.inputs import Beats, InputMeter, Inputs
from codehub.proxy.interfaces import ActivityRecorder, Use
from codehub.proxy.metrics import Metrics
from codehub.proxy.settings import ProxySettings

log = structlog.get_logger(__name__)

TURN = 1.0  # seconds between two scans of all leases
LINGER = 5.0  # seconds a requests lease is kept after the last request
OUTAGE = 30.0  # seconds of failing calls until everything is recorded in PostgreSQL
PARALLEL = 16  # calls at once

LeaseKey = tuple[UUID, str, Use]
LeaseCall = Callable[[], Awaitable[None]]


class Requests:
    """Counts the requests in flight to one workspace.

    The hot path calls ``began`` and ``ended`` only.
    """

    __slots__ = (
        "__weakref__",
        "_tracker",
        "beats",
        "ended_at",
        "in_flight",
        "input_at",
        "touched_at",
        "workspace_id",
    )

    def __init__(self, tracker: "LeaseTracker", workspace_id: UUID) -> None:
        self._tracker = tracker
        self.workspace_id = workspace_id
        self.in_flight = 0
        self.beats = Beats()
        self.ended_at = 0.0
        self.input_at = float("-inf")
        self.touched_at = float("-inf")

    def began(self, now: float, *, by_person: bool = False) -> None:
        self.in_flight += 1
        if by_person:
            self.input_at = now
        if now - self.touched_at >= self._tracker.touch_interval:
            self.touched_at = now
            self._tracker.note(self)

    def ended(self, now: float) -> None:
        self.in_flight -= 1
        self.ended_at = now


class LeaseTracker:
    """Takes, renews and releases the leases of one proxy.

    ``run`` is its background task.
    """

    def __init__(self, port: ActivityRecorder, settings: ProxySettings, metrics: Metrics) -> None:
        self._port = port
        self._metrics = metrics
        self._node = uuid4().hex[:12]
        self._count = 0
        self.touch_interval = settings.touch_interval
        self._renewal = settings.lease_renewal
        # One object per workspace, shared by its connections.
        self._known: WeakValueDictionary[UUID, Requests] = WeakValueDictionary()
        self._active: dict[UUID, Requests] = {}  # with a requests lease, or touched within ``touch_interval``
        self._held: dict[LeaseKey, float] = {}  # taken and still needed, with the time of the last renewal
        self._to_take: set[LeaseKey] = set()
        self._to_release: set[LeaseKey] = set()
        self._to_touch: set[UUID] = set()
        self._meters: dict[str, tuple[UUID, InputMeter | None]] = {}  # by connection; None: not counted
        self._inputs = Inputs(settings.touch_interval)
        self._changed = asyncio.Event()
        self._scanned_at = float("-inf")
        self._failing_since: float | None = None
        self._unrecorded: set[LeaseKey] = set()  # needed, and stored neither in Redis nor in PostgreSQL
        self._only_in_postgres: set[LeaseKey] = set()  # needed, and recorded in PostgreSQL only
        self._loop = asyncio.get_running_loop()

    def requests(self, workspace_id: UUID) -> Requests:
        """Return the workspace's counter; the same object while anything references it."""
        requests = self._known.get(workspace_id)
        if requests is None:
            requests = self._known[workspace_id] = Requests(self, workspace_id)
        return requests

    def note(self, requests: Requests) -> None:
        """Queue a touch and the requests lease.

        Called at most once in ``touch_interval`` per workspace.
        """
        self._active[requests.workspace_id] = requests
        self._to_touch.add(requests.workspace_id)
        self._queue_take(self._requests_lease(requests.workspace_id))

    def socket_opened(self, workspace_id: UUID) -> str:
        """Queue a lease for a WebSocket.

        Covers its handshake too, which is not counted as a request.
        """
        self._count += 1
        conn_id = f"{self._node}-{self._count}"
        self._queue_take((workspace_id, conn_id, Use.WEBSOCKET))
        return conn_id

    def socket_joined(self, workspace_id: UUID, conn_id: str, meter: InputMeter | None) -> None:
        """Count input of a WebSocket from now on. None: it cannot be counted."""
        self._meters[conn_id] = workspace_id, meter

    def socket_closed(self, workspace_id: UUID, conn_id: str) -> None:
        """Queue the release of a WebSocket's lease."""
        if conn_id in self._meters:
            self._note_input(*self._meters.pop(conn_id), now=self._loop.time())
        self._queue_release((workspace_id, conn_id, Use.WEBSOCKET))

    async def run(self) -> None:
        """Run turns until cancelled."""
        while True:
            await self.turn()
            try:
                # With nothing to renew, to release or to retry, wait for the next change only.
                async with asyncio.timeout(TURN if self._has_work() else None):
                    await self._changed.wait()
            except TimeoutError:
                pass

    async def turn(self) -> None:
        """Make the calls that are due.

        Scans all leases at most once a second; changes are handled at once.
        """
        self._changed.clear()
        now = self._loop.time()
        if now - self._scanned_at >= TURN:
            self._scanned_at = now
            self._scan(now)
        take, self._to_take = self._to_take, set()
        release, self._to_release = self._to_release, set()
        touch, self._to_touch = self._to_touch, set()
        calls: list[LeaseCall] = [partial(self._take, lease) for lease in take]
        calls += [partial(self._release, lease) for lease in release]
        calls += [partial(self._touch, workspace_id) for workspace_id in touch]
        if calls:
            try:
                await self._run_calls(calls)
            except asyncio.CancelledError:  # the proxy stops: any may have been taken, none is needed
                for lease in take | release:
                    self._queue_release(lease)
                raise
        await self._report_outage()

    async def close(self) -> None:
        """Release every lease, so that idle times count from now."""
        for lease in [*self._held, *self._to_take]:
            self._queue_release(lease)
        self._active.clear()
        await self.turn()

    def _requests_lease(self, workspace_id: UUID) -> LeaseKey:
        return workspace_id, f"{self._node}-http", Use.HTTP

    def _has_work(self) -> bool:
        waiting = self._to_take or self._to_release or self._to_touch
        return bool(self._held or self._active or waiting or self._failing_since is not None)

    def _queue_take(self, lease: LeaseKey) -> None:
        self._to_release.discard(lease)
        if lease not in self._held:
            self._to_take.add(lease)
        self._changed.set()

    def _queue_release(self, lease: LeaseKey) -> None:
        self._to_take.discard(lease)
        self._held.pop(lease, None)
        self._forget_failure(lease)
        self._to_release.add(lease)  # also while a take runs or after it failed: Redis may have stored it
        self._changed.set()

    def _note_input(self, workspace_id: UUID, meter: InputMeter | None, *, now: float) -> None:
        if meter is None:
            self._inputs.note(workspace_id, now)
        elif meter.input_at:
            self._inputs.note(workspace_id, meter.input_at / 1e9)  # the event loop's clock, in nanoseconds

    def _scan_inputs(self, now: float) -> None:
        for workspace_id, meter in self._meters.values():
            self._note_input(workspace_id, meter, now=now)
        for workspace_id, requests in self._active.items():
            self._inputs.note(workspace_id, requests.input_at)
        self._to_touch |= self._inputs.due(now)
        self._inputs.keep({lease[0] for lease in [*self._held, *self._to_take]} | self._active.keys())

    def _scan(self, now: float) -> None:
        self._scan_inputs(now)
        self._to_take |= {lease for lease, at in self._held.items() if now - at >= self._renewal}
        for workspace_id, requests in list(self._active.items()):
            lease = self._requests_lease(workspace_id)
            if requests.in_flight:
                self._queue_take(lease)
            elif now - requests.ended_at >= LINGER:
                if lease in self._held:
                    self._queue_release(lease)
                if now - requests.touched_at >= self.touch_interval:
                    del self._active[workspace_id]

    async def _run_calls(self, calls: list[LeaseCall]) -> None:
        slots = asyncio.Semaphore(PARALLEL)
        failures = 0

        async def one(call: LeaseCall) -> None:
            nonlocal failures
            async with slots:
                try:
                    await call()
                except Exception as error:  # noqa: BLE001 - any failure is retried on the next turn
                    failures += 1
                    self._metrics.activity_failures_total += 1
                    if failures == 1 and self._failing_since is None:  # log once per outage
                        log.warning("activity not recorded", error=str(error))

        await asyncio.gather(*(one(call) for call in calls))
        if not failures:
            self._failing_since = None
        elif self._failing_since is None:
            self._failing_since = self._loop.time()

    async def _take(self, lease: LeaseKey) -> None:
        try:
            await self._port.lease(*lease, input_age=self._input_age(lease[0]))
        except Exception:
            if lease not in self._to_release:
                self._to_take.add(lease)
                if lease not in self._held and lease not in self._only_in_postgres:
                    self._unrecorded.add(lease)
            raise
        self._forget_failure(lease)
        if lease not in self._to_release:  # released meanwhile: the next turn releases it in Redis
            self._held[lease] = self._loop.time()

    def _forget_failure(self, lease: LeaseKey) -> None:
        self._unrecorded.discard(lease)
        self._only_in_postgres.discard(lease)

    async def _release(self, lease: LeaseKey) -> None:
        try:
            await self._port.release(*lease, input_age=self._input_age(lease[0]))
        except Exception:
            self._to_release.add(lease)
            raise

    async def _touch(self, workspace_id: UUID) -> None:
        try:
            await self._port.touch(workspace_id, input_age=self._input_age(workspace_id))
        except Exception:
            self._to_touch.add(workspace_id)
            raise

    def _input_age(self, workspace_id: UUID) -> float | None:
        return self._inputs.age(workspace_id, self._loop.time())

    async def _report_outage(self) -> None:
        now = self._loop.time()
        lasts = self._failing_since is not None and now - self._failing_since >= OUTAGE
        unrecorded = set(self._unrecorded)
        if not (lasts or unrecorded):
            return
        in_use = {lease[0] for lease in unrecorded}
        if lasts:
            in_use |= {lease[0] for lease in [*self._held, *self._to_take]} | self._to_touch
        try:
            await self._port.mark_active(in_use)
        except Exception as error:  # noqa: BLE001 - PostgreSQL fails too; both are retried
            log.warning("activity not recorded anywhere", error=str(error))
        else:
            self._only_in_postgres |= unrecorded & self._unrecorded
            self._unrecorded -= unrecorded
            if lasts:
                self._failing_since = now  # record again in 30 s if the outage lasts
