"""Carry one SSH connection between a WebSocket and ``inside ssh`` in a workspace.

The client's first bytes wait here while the workspace wakes; the server's identification line is sent at once, so
that no client's timeout runs meanwhile. What is carried is encrypted: CodeHub cannot read it. Binary messages are SSH's
bytes, text messages are JSON about the workspace, for people who wait.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from fastapi import WebSocket
from prometheus_client import Gauge

from codehub.api.dependencies import Leases, SshAccess, SshTunnel
from codehub.api.inside.endings import NO_TUNNEL, SessionEnd
from codehub.api.inside.session import WorkspaceSession
from codehub.api.state import AppState
from codehub.services.identity import Principal
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

IDENTIFICATION = b"SSH-2.0-CodeHub_1\r\n"
"""What ``inside ssh`` sends first (``inside/server.go``). It is sent before it runs, and taken out of its output."""

SESSIONS = Gauge("codehub_ssh_sessions", "Open SSH sessions of this process")


class SshSession(WorkspaceSession[SshTunnel]):
    """One connection. ``run`` returns how it ended."""

    kind = "ssh"
    gauge = SESSIONS

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
        super().__init__(socket, record, caller, state=state)
        self._access = access
        self._keep = keep

    @property
    def _leases(self) -> Leases:
        return self._access.leases

    async def run(self) -> SessionEnd:
        """Carry the connection until anything ends it."""
        await self._socket.send_bytes(IDENTIFICATION)
        return await super().run()

    async def _take(self, message: Mapping[str, Any]) -> None:
        if data := message.get("bytes"):
            await self._received.put(data)

    async def _open_once(self) -> SshTunnel:
        return await self._access.open(self._id, keep=self._keep)

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
                await self._finish_at_end()
                return
