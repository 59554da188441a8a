"""Carry one SSH connection between a client and ``inside ssh`` in a workspace.

Called by the WebSocket (``routes/ssh``) and by the gateway (``ssh/gateway``); how bytes get to the client is theirs
(``SshClient``). The client's first bytes wait here while the workspace wakes; the server's identification line is sent
at once, so that no client's timeout runs meanwhile. What is carried is encrypted: CodeHub cannot read it.
"""

from typing import Protocol

import structlog
from prometheus_client import Gauge

from codehub.api.dependencies import Leases, SshAccess, SshTunnel
from codehub.api.inside.endings import NO_TUNNEL, SessionEnd
from codehub.api.inside.session import WorkspaceSession
from codehub.api.ssh.traffic import TrafficMeter
from codehub.api.state import AppState
from codehub.kit.clock import monotonic
from codehub.services.identity import Principal
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

IDENTIFICATION = b"SSH-2.0-CodeHub_1\r\n"
"""What ``inside ssh`` sends first (``inside/server.go``). It is sent before it runs, and taken out of its output."""

SESSIONS = Gauge("codehub_ssh_sessions", "Open SSH sessions of this process")


class SshClient(Protocol):
    """The person's side of a connection."""

    async def receive(self) -> bytes | SessionEnd:
        """The next bytes of the client, or how it left."""

    async def send(self, data: bytes) -> None:
        """Send bytes to the client. Waits while it does not read."""

    async def tell(self, status: str) -> None:
        """Say how far the workspace is, if the client can show it."""


class SshSession(WorkspaceSession[SshTunnel]):
    """One connection. ``run`` returns how it ended."""

    kind = "ssh"
    gauge = SESSIONS

    def __init__(
        self,
        client: SshClient,
        record: WorkspaceRecord,
        caller: Principal,
        *,
        state: AppState,
        access: SshAccess,
        keep: bool,
    ) -> None:
        super().__init__(record, caller, state=state)
        self._client = client
        self._access = access
        self._keep = keep
        self._traffic = TrafficMeter(monotonic())

    @property
    def _leases(self) -> Leases:
        return self._access.leases

    def _input_age(self) -> float:
        return monotonic() - self._traffic.used_at

    async def run(self) -> SessionEnd:
        """Carry the connection until anything ends it."""
        await self._client.send(IDENTIFICATION)
        return await super().run()

    async def _receive(self) -> None:
        while True:
            received = await self._client.receive()
            if isinstance(received, SessionEnd):
                self._finish(received)
                return
            self._traffic.on_input(len(received), monotonic())
            await self._received.put(received)

    async def _tell_status(self, status: str) -> None:
        await self._client.tell(status)

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
                self._traffic.on_output(len(data), monotonic())
                await self._client.send(data)
            data = await tunnel.read()
            if not data:
                await self._finish_at_end()
                return
