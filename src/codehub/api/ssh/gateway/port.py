"""The gateway's port: let connections in, up to the limits, and end them all with the process."""

import asyncio
import logging
import socket
from typing import cast

import asyncssh
from asyncssh.public_key import SSHKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from prometheus_client import Counter, Gauge

from codehub.api.dependencies import SshGatewayAddress
from codehub.api.ssh.gateway.connection import GatewayConnection, build_options
from codehub.api.ssh.gateway.limits import ConnectionLimits, Maxima
from codehub.api.ssh.gateway.visitor import Visitor, address_of
from codehub.api.state import AppState
from codehub.kit.clock import monotonic

BACKLOG = 128
ENDING = "CodeHub is being restarted. Connect again in a moment."

CONNECTIONS = Gauge("codehub_ssh_gateway_connections", "Open connections to the SSH gateway of this process")
REFUSED = Counter(
    "codehub_ssh_gateway_refused_total", "Connections that the SSH gateway refused: too many were open"
)


class GatewayPort:
    """Serves the SSH gateway on a bound socket."""

    def __init__(
        self, state: AppState, gateway: SshGatewayAddress, *, key_seed: bytes, maxima: Maxima | None = None
    ) -> None:
        """``key_seed``: the 32 bytes of the gateway's Ed25519 key."""
        self._state = state
        self._gateway = gateway
        self._limits = ConnectionLimits(trusted=state.settings.trusted_peers, maxima=maxima)
        self._options = build_options(_import_key(key_seed), self._new_visitor)
        self._server: asyncio.Server | None = None
        self._visitors: set[Visitor] = set()
        self.waiting: set[_Door] = set()

    async def start(self, taken: socket.socket) -> None:
        """Listen."""
        asyncssh.set_log_level(logging.WARNING)  # it has lines for every connection
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Door(self), sock=taken, backlog=BACKLOG)

    async def close(self) -> None:
        """Listen no more, and end every connection."""
        if self._server is not None:
            self._server.close()
        for door in list(self.waiting):
            door.close()
        visitors = list(self._visitors)
        for visitor in visitors:
            visitor.disconnect(ENDING)
        await asyncio.gather(*(visitor.stop() for visitor in visitors))

    def arrives(self, address: str) -> float | None:
        """Count somebody at the port. Returns in how many seconds to let them in; None: there are too many."""
        if not self._limits.arrives(address):
            REFUSED.inc()
            return None
        return self._limits.turn_of(address, monotonic())

    def leaves(self, address: str) -> None:
        """Somebody left before it was their turn."""
        self._limits.leaves(address)

    def let_in(self, transport: asyncio.Transport) -> None:
        """Make a connection of what came to the port."""
        connection = GatewayConnection(asyncio.get_running_loop(), self._options)
        transport.set_protocol(connection)
        connection.connection_made(transport)

    def _new_visitor(self) -> Visitor:
        visitor = Visitor(self._state, self._gateway, limits=self._limits, on_lost=self._forget)
        self._visitors.add(visitor)
        CONNECTIONS.inc()
        return visitor

    def _forget(self, visitor: Visitor) -> None:
        self._visitors.discard(visitor)
        CONNECTIONS.dec()


class _Door(asyncio.Protocol):
    """Stands where a connection begins, until its turn: one that is refused or waits costs no more than this."""

    def __init__(self, port: GatewayPort) -> None:
        self._port = port
        self._address = ""
        self._turn: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._address = address_of(self._transport)
        seconds = self._port.arrives(self._address)
        if seconds is None:
            self.close()
        elif seconds == 0.0:
            self._port.let_in(self._transport)
        else:
            self._transport.pause_reading()  # what it says meanwhile is for whoever lets it in
            self._turn = asyncio.get_running_loop().call_later(seconds, self._let_in)
            self._port.waiting.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._turn is not None:
            self._turn.cancel()
            self._port.waiting.discard(self)
            self._port.leaves(self._address)

    def close(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _let_in(self) -> None:
        self._turn = None
        self._port.waiting.discard(self)
        assert self._transport is not None
        if self._transport.is_closing():
            self._port.leaves(self._address)
            return
        self._port.let_in(self._transport)
        self._transport.resume_reading()


def public_key_of(key_seed: bytes) -> str:
    """The gateway's public key, as ``known_hosts`` has it: ``ssh-ed25519 …``."""
    return b" ".join(_import_key(key_seed).export_public_key("openssh").split()[:2]).decode()


def _import_key(key_seed: bytes) -> SSHKey:
    key = Ed25519PrivateKey.from_private_bytes(key_seed)
    return asyncssh.import_private_key(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
