"""Carry one SSH connection between a WebSocket and ``inside ssh`` in a workspace.

The client's first bytes wait here while the workspace wakes; the server's identification line is sent at once, so
that no client's timeout runs meanwhile. What is carried is encrypted: CodeHub cannot read it. Binary messages are SSH's
bytes, text messages are JSON about the workspace, for people who wait.

The session ends with the rights of its person, with the workspace, and with either side. It holds a lease, like
every open connection; that of a process that was killed expires.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from uuid import uuid4

import structlog
from fastapi import WebSocket
from prometheus_client import Gauge

from codehub.api.dependencies import SshAccess, SshTunnel
from codehub.api.ssh.endings import (
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
from codehub.kit.tasks import cancel_and_wait
from codehub.services.identity import Principal
from codehub.signals.connection import RedisUnavailable
from codehub.signals.live import FeedClosed, LiveSubscription
from codehub.store.errors import DATABASE_FAILED
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

IDENTIFICATION = b"SSH-2.0-CodeHub_1\r\n"
"""What ``inside ssh`` sends first (``inside/server.go``). It is sent before it runs, and taken out of its output."""

WAITING_MESSAGES = 16  # of the client, before the tunnel is open; then it is not read from
START_SECONDS = 900.0
LOOK_SECONDS = 15.0  # the workspace is looked at this often, without any news of it
RENEWAL_SECONDS = 30.0
RETRY_SECONDS = 0.25
CLOSED_BY_CLIENT = 1000  # a proxy that ends says 1001: the client was not asked, and may come back by itself

SESSIONS = Gauge("codehub_ssh_sessions", "Open SSH sessions of this process")


class SshSession:
    """One connection. ``run`` returns how it ended."""

    def __init__(
        self,
        socket: WebSocket,
        record: WorkspaceRecord,
        caller: Principal,
        *,
        state: AppState,
        access: SshAccess,
        keep: bool,
    ) -> None:
        self._socket = socket
        self._record = record
        self._id = record.view.id
        self._caller = caller
        self._state = state
        self._access = access
        self._keep = keep
        self._received: asyncio.Queue[bytes] = asyncio.Queue(WAITING_MESSAGES)
        self._is_running = asyncio.Event()
        self._end: asyncio.Future[SessionEnd] = asyncio.get_running_loop().create_future()

    async def run(self) -> SessionEnd:
        """Carry the connection until anything ends it."""
        await self._socket.send_bytes(IDENTIFICATION)
        SESSIONS.inc()
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
            SESSIONS.dec()

    def _finish(self, end: SessionEnd) -> None:
        if not self._end.done():
            self._end.set_result(end)

    def _on_revoked(self) -> None:
        self._finish(ENDING if self._state.revoker.is_ending else REVOKED)

    def _on_failure(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("ssh session failed", workspace_id=str(self._id), exc_info=error)
            self._finish(NO_TUNNEL)

    # The client ---------------------------------------------------------------------------------

    async def _receive(self) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                self._finish(CLOSED if message.get("code") == CLOSED_BY_CLIENT else LOST)
                return
            if data := message.get("bytes"):
                await self._received.put(data)

    # The workspace --------------------------------------------------------------------------------

    async def _follow(self, news: LiveSubscription) -> None:
        """Look at the workspace at every news, and now and then without any: news may be lost."""
        while True:
            try:
                await news.take(LOOK_SECONDS)
            except FeedClosed:
                self._finish(ENDING)
                return
            try:
                record = await self._state.workspaces.get(self._id)
            except DATABASE_FAILED:
                continue  # unknown: an outage ends nobody's work
            self._look(record)
            if not self._is_running.is_set() and record is not None:
                await self._socket.send_text(json.dumps({"status": record.status}))

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
            log.warning("no ssh tunnel", workspace_id=str(self._id), error=error.message)
            self._finish(NO_TUNNEL)
            return
        sending = asyncio.create_task(self._send(tunnel))
        try:
            async with self._leased():
                await self._pass_on(tunnel)
        except EffectError as error:
            log.warning("ssh tunnel broke", workspace_id=str(self._id), error=error.message)
            self._finish(NO_TUNNEL)
        finally:
            await cancel_and_wait([sending])
            await tunnel.close()

    async def _open(self) -> SshTunnel:
        """Open the tunnel. A workspace that has just been seen running may need another moment."""
        for _ in range(40):
            try:
                return await self._access.open(self._id, keep=self._keep)
            except EffectError as error:
                log.info("ssh tunnel not open yet", workspace_id=str(self._id), error=error.message)
                await asyncio.sleep(RETRY_SECONDS)
        return await self._access.open(self._id, keep=self._keep)

    async def _send(self, tunnel: SshTunnel) -> None:
        with contextlib.suppress(EffectError):  # whoever reads it says so
            while True:
                await tunnel.write(await self._received.get())

    async def _pass_on(self, tunnel: SshTunnel) -> None:
        """Pass on what the tunnel says, without its identification line, which the client has had."""
        begun = b""
        while len(begun) < len(IDENTIFICATION):
            data = await tunnel.read()
            begun += data
            if not data or not begun.startswith(IDENTIFICATION[: len(begun)]):
                log.warning(
                    "ssh tunnel began with something else", workspace_id=str(self._id), said=begun[:200]
                )
                self._finish(NO_TUNNEL)
                return
        data = begun[len(IDENTIFICATION) :]
        while True:
            if data:
                await self._socket.send_bytes(data)
            data = await tunnel.read()
            if not data:
                # It may have ended with the workspace, of which no news has come yet.
                self._look(await self._state.workspaces.get(self._id))
                self._finish(CLOSED)
                return

    @contextlib.asynccontextmanager
    async def _leased(self) -> AsyncIterator[None]:
        lease_id = f"ssh-{uuid4().hex[:12]}"
        ttl_seconds = self._record.view.standby_ttl_seconds

        async def renew() -> None:
            while True:
                try:
                    await self._access.leases.take(self._id, lease_id, ttl_seconds=ttl_seconds)
                    await asyncio.sleep(RENEWAL_SECONDS)
                except RedisUnavailable:  # while it is away nothing is put to sleep
                    await asyncio.sleep(1.0)

        renewing = asyncio.create_task(renew())
        try:
            yield
        finally:
            await cancel_and_wait([renewing])
            with contextlib.suppress(RedisUnavailable):
                await self._access.leases.release(self._id, lease_id, ttl_seconds=ttl_seconds)
