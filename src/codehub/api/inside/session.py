"""Carry one person's connection into a workspace, whatever is spoken over it: SSH, a terminal.

It waits while the workspace starts, and ends with the rights of its person, with the workspace, and with either side.
It holds a lease, like every open connection; that of a process that was killed expires. Subclasses speak with the
client and open the tunnel.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Generic, Protocol, TypeVar
from uuid import uuid4

import structlog
from prometheus_client import Gauge
from starlette.websockets import WebSocketDisconnect

from codehub.api.dependencies import Leases
from codehub.api.inside.endings import (
    BROKEN,
    CLOSED,
    DELETED,
    ENDING,
    LOST,
    NO_TUNNEL,
    NOT_STARTED,
    REVOKED,
    STOPPED,
    SessionEnd,
)
from codehub.api.state import AppState
from codehub.domain.errors import EffectError
from codehub.domain.waking import Phase, phase_of
from codehub.kit.clock import monotonic
from codehub.kit.tasks import cancel_and_wait
from codehub.services.identity import Principal
from codehub.signals.connection import RedisUnavailable
from codehub.signals.live import FeedClosed, LiveSubscription
from codehub.store.errors import DATABASE_FAILED
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

WAITING_MESSAGES = 16  # of the client, before the tunnel is open; then it is not read from
START_SECONDS = 900.0
LOOK_SECONDS = 15.0  # the workspace is looked at this often, without any news of it
RENEWAL_SECONDS = 30.0
RETRY_SECONDS = 0.25


def _until_next_look() -> float:
    """All sessions of a process look at the same times: that is one query for all of them."""
    return LOOK_SECONDS - monotonic() % LOOK_SECONDS


class SessionTunnel(Protocol):
    """A process in the workspace that was started for one session."""

    async def write(self, data: bytes) -> None: ...

    async def close(self) -> None: ...


TunnelT = TypeVar("TunnelT", bound=SessionTunnel)


class WorkspaceSession(ABC, Generic[TunnelT]):
    """One connection. ``run`` returns how it ended."""

    kind: str
    """In leases and in the log."""
    gauge: Gauge

    def __init__(
        self,
        record: WorkspaceRecord,
        caller: Principal,
        *,
        state: AppState,
    ) -> None:
        self._record = record
        self._id = record.view.id
        self._caller = caller
        self._state = state
        self._received: asyncio.Queue[bytes] = asyncio.Queue(WAITING_MESSAGES)
        self._is_running = asyncio.Event()
        self._end: asyncio.Future[SessionEnd] = asyncio.get_running_loop().create_future()

    async def run(self) -> SessionEnd:
        """Carry the connection until anything ends it."""
        self.gauge.inc()
        try:
            with (
                self._state.deps.live.subscribe_workspace(self._id) as news,
                self._state.revoker.watching(self._caller, self._on_revoked),
            ):
                self._look(self._record)
                tasks = [
                    asyncio.create_task(part) for part in (self._receive(), self._follow(news), self._carry())
                ]
                try:
                    for task in tasks:
                        task.add_done_callback(self._on_failure)
                    return await self._end
                finally:
                    await cancel_and_wait(tasks)
        finally:
            self.gauge.dec()

    @property
    @abstractmethod
    def _leases(self) -> Leases: ...

    @abstractmethod
    async def _open_once(self) -> TunnelT:
        """Start the process. Raises ``EffectError``."""

    @abstractmethod
    async def _pass_on(self, tunnel: TunnelT) -> None:
        """Pass on what the tunnel says, and finish at its end. Raises ``EffectError``."""

    @abstractmethod
    async def _receive(self) -> None:
        """Put what the client sends to the tunnel into the queue, and finish when it leaves."""

    @abstractmethod
    async def _tell_status(self, status: str) -> None:
        """Tell the client how far the workspace is, which does not run yet."""

    async def _send(self, tunnel: TunnelT) -> None:
        with contextlib.suppress(EffectError):  # whoever reads it says so
            while True:
                await tunnel.write(await self._received.get())

    def _input_age(self) -> float | None:
        """Seconds since the person caused something; None: it cannot be told."""
        return None

    def _finish(self, end: SessionEnd) -> None:
        if not self._end.done():
            self._end.set_result(end)

    def _on_revoked(self) -> None:
        self._finish(ENDING if self._state.revoker.is_ending else REVOKED)

    def _on_failure(self, task: "asyncio.Task[None]") -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, WebSocketDisconnect):  # it left while something was sent to it
            self._finish(LOST)
        else:
            log.error("session failed", kind=self.kind, workspace_id=str(self._id), exc_info=error)
            self._finish(NO_TUNNEL)

    async def _finish_at_end(self) -> None:
        """The tunnel has ended, perhaps with the workspace, of which no news has come yet."""
        self._look(await self._state.workspaces.get(self._id))
        self._finish(CLOSED)

    # The workspace --------------------------------------------------------------------------------

    async def _follow(self, news: LiveSubscription) -> None:
        """Look at the workspace at every news, and now and then without any: news may be lost."""
        while True:
            try:
                await news.take(_until_next_look())
            except FeedClosed:
                self._finish(ENDING)
                return
            try:
                record = await self._state.workspaces.get(self._id)
            except DATABASE_FAILED:
                continue  # unknown: an outage ends nobody's work
            self._look(record)
            if not self._is_running.is_set() and record is not None:
                await self._tell_status(record.status)

    def _look(self, record: WorkspaceRecord | None) -> None:
        if record is None or record.view.deleted_at is not None:
            self._finish(DELETED)
            return
        match phase_of(record.view):
            case Phase.RUNNING:
                self._is_running.set()
            case Phase.ASLEEP:
                self._finish(STOPPED)
            case Phase.ERROR:
                self._finish(BROKEN)
            case Phase.WAKING:  # also after a container ended by itself: the tunnel then ends by itself
                pass

    # The tunnel -----------------------------------------------------------------------------------

    async def _carry(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._is_running.wait()
                tunnel = await self._open()
        except TimeoutError:
            self._finish(NOT_STARTED)
            return
        except EffectError as error:
            log.warning("no tunnel", kind=self.kind, workspace_id=str(self._id), error=error.message)
            self._finish(NO_TUNNEL)
            return
        sending = asyncio.create_task(self._send(tunnel))
        try:
            async with self._leased():
                await self._pass_on(tunnel)
        except EffectError as error:
            log.warning("tunnel broke", kind=self.kind, workspace_id=str(self._id), error=error.message)
            self._finish(NO_TUNNEL)
        finally:
            await cancel_and_wait([sending])
            await tunnel.close()

    async def _open(self) -> TunnelT:
        """Open the tunnel. A workspace that has just been seen running may need another moment."""
        for _ in range(40):
            try:
                return await self._open_once()
            except EffectError as error:
                log.info(
                    "tunnel not open yet", kind=self.kind, workspace_id=str(self._id), error=error.message
                )
                await asyncio.sleep(RETRY_SECONDS)
        return await self._open_once()

    @contextlib.asynccontextmanager
    async def _leased(self) -> AsyncIterator[None]:
        lease_id = f"{self.kind}-{uuid4().hex[:12]}"
        ttl_seconds = self._record.view.standby_ttl_seconds

        async def renew() -> None:
            while True:
                try:
                    await self._leases.take(
                        self._id, lease_id, ttl_seconds=ttl_seconds, input_age_seconds=self._input_age()
                    )
                    await asyncio.sleep(RENEWAL_SECONDS)
                except RedisUnavailable:  # while it is away nothing is put to sleep
                    await asyncio.sleep(1.0)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            await cancel_and_wait([renewing])
            with contextlib.suppress(RedisUnavailable):
                await self._leases.release(
                    self._id, lease_id, ttl_seconds=ttl_seconds, input_age_seconds=self._input_age()
                )
