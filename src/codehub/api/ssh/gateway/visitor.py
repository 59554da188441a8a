"""What one connection to the gateway may do: sign in by a registered key, and open channels to workspaces.

asyncssh calls these methods. The invariant: whatever is not a channel to port 22 of a workspace of the person who
signed in is refused, with a sentence.
"""

import asyncio
import contextlib
import unicodedata
from collections.abc import Callable, Coroutine
from typing import NoReturn, Protocol
from uuid import UUID

import asyncssh
import structlog
from asyncssh.public_key import SSHKey

from codehub.api.dependencies import SshGatewayAddress
from codehub.api.inside.endings import ENDING, REVOKED, SessionEnd
from codehub.api.ssh.admission import Admitted, Wake, admit
from codehub.api.ssh.gateway.channel import ChannelClient
from codehub.api.ssh.gateway.connection import GatewayConnection
from codehub.api.ssh.gateway.limits import MAX_CHANNELS, MAX_TRIES, ConnectionLimits
from codehub.api.state import AppState
from codehub.domain.errors import CodeHubError
from codehub.domain.ssh_keys import fingerprint_of
from codehub.services.errors import NotFound
from codehub.services.identity import Principal
from codehub.store.errors import DATABASE_FAILED
from codehub.store.workspaces import queries
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

SSH_PORT = 22
SUFFIX = ".codehub"
"""What ``codehub config-ssh`` puts after names: the same host then works both ways."""

WAKE_SUFFIX = "+wake"
"""After a user name: a person asks to wake what was put to sleep. No user name has a plus sign."""

TOO_MANY_TRIES = "Too many keys were tried. Name the right one: ssh -o IdentitiesOnly=yes -i FILE"
ELSEWHERE = "Only workspaces are reached from here, at port 22"
NO_FORWARDING = "This gateway forwards nothing: connect to a workspace, and forward from there"
DATABASE_AWAY = "The database does not answer. Try again in a moment."


class Visitor(asyncssh.SSHServer):
    """Somebody at the gateway, from the first byte to the last."""

    def __init__(
        self,
        state: AppState,
        gateway: SshGatewayAddress,
        *,
        limits: ConnectionLimits,
        on_lost: Callable[["Visitor"], None],
    ) -> None:
        """``limits`` have counted this connection as a stranger's."""
        self._state = state
        self._gateway = gateway
        self._limits = limits
        self._on_lost = on_lost
        self._address = ""
        self._connection: GatewayConnection | None = None
        self._tries = -1  # the first user name is no try
        self._offered: tuple[Principal, Wake] | None = None
        self._signed_in: tuple[Principal, Wake] | None = None
        self._watching = contextlib.ExitStack()
        self._opening = 0
        self._channels: set[ChannelClient] = set()
        self._touching: asyncio.Task[None] | None = None

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        assert isinstance(conn, GatewayConnection)
        self._connection = conn
        self._address = address_of(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection = None
        self._watching.close()
        self._on_lost(self)
        if self._signed_in is None:
            self._limits.leaves(self._address)
        else:
            self._limits.signs_out(self._signed_in[0].user.id)

    def disconnect(self, sentence: str) -> None:
        """End the connection and all its channels. ssh shows the sentence."""
        if self._connection is not None:
            self._connection.end(sentence)

    async def stop(self) -> None:
        """End what runs for this connection."""
        await asyncio.gather(*(channel.stop() for channel in list(self._channels)))

    # Signing in -----------------------------------------------------------------------------------------

    def begin_auth(self, username: str) -> bool:
        self._count_try()
        return True

    def public_key_auth_supported(self) -> bool:
        return True

    async def validate_public_key(self, username: str, key: SSHKey) -> bool:
        """Whether this person has registered this key. asyncssh verifies the signature after it."""
        self._count_try()
        self._offered = None
        name = username.removesuffix(WAKE_SUFFIX)
        wake = Wake.ALWAYS if name != username else Wake.TRUE
        try:
            principal = await self._state.identities.of_ssh_key(fingerprint_of(key.public_data))
        except DATABASE_FAILED:
            raise asyncssh.DisconnectError(asyncssh.DISC_BY_APPLICATION, DATABASE_AWAY) from None
        if principal is None or principal.user.username.lower() != name.lower():
            return False
        self._offered = (principal, wake)
        return True

    def auth_completed(self) -> None:
        """Follows the verification of the key that was offered last, without anything in between."""
        assert self._offered is not None, "signed in without a key"
        self._signed_in = self._offered
        principal, _ = self._signed_in
        may_stay = self._limits.signs_in(self._address, principal.user.id)
        self._watching.enter_context(self._state.revoker.watching(principal, self._on_revoked))
        log.info("ssh gateway signed in", user_id=str(principal.user.id), key_id=str(principal.key_id))
        if not may_stay:
            self.disconnect("You have too many connections to this gateway. Close some.")
            return
        assert principal.key_id is not None
        self._touching = asyncio.create_task(self._record_use(principal.key_id))

    def _on_revoked(self) -> None:
        self.disconnect((ENDING if self._state.revoker.is_ending else REVOKED).sentence)

    async def _record_use(self, key_id: UUID) -> None:
        with contextlib.suppress(*DATABASE_FAILED):  # when a key was used last is only for people to read
            await self._state.identities.record_ssh_key_use(key_id)

    def _count_try(self) -> None:
        self._tries += 1
        if self._tries > MAX_TRIES:
            raise asyncssh.DisconnectError(asyncssh.DISC_NO_MORE_AUTH_METHODS_AVAILABLE, TOO_MANY_TRIES)

    # What is asked for ------------------------------------------------------------------------------------

    def session_requested(self) -> NoReturn:
        _refuse(f"No shell here. Connect to a workspace: {self._usage()}")

    def unix_connection_requested(self, dest_path: str) -> NoReturn:
        _refuse(NO_FORWARDING)

    def connection_requested(
        self, dest_host: str, dest_port: int, orig_host: str, orig_port: int
    ) -> "Coroutine[None, None, ChannelClient]":
        if dest_port != SSH_PORT:
            _refuse(f"{ELSEWHERE}: {self._usage()}")
        if len(self._channels) + self._opening >= MAX_CHANNELS:
            _refuse(f"There are {MAX_CHANNELS} channels open already.")
        self._opening += 1
        return self._open(dest_host)

    def _usage(self, suffix: str = "", workspace: str = "NAME") -> str:
        name = self._signed_in[0].user.username if self._signed_in is not None else "USER"
        return f"ssh -J {name}{suffix}@{self._gateway.host}:{self._gateway.port} {workspace}"

    async def _open(self, host: str) -> ChannelClient:
        try:
            admitted = await self._admit(host)
        except CodeHubError as error:
            _refuse(str(error))
        except DATABASE_FAILED:
            _refuse(DATABASE_AWAY)
        finally:
            self._opening -= 1
        if self._connection is None:
            _refuse("The connection is gone.")
        channel = ChannelClient(self._connection, admitted, self._on_end)
        self._channels.add(channel)
        return channel

    async def _admit(self, host: str) -> Admitted:
        assert self._signed_in is not None, "asyncssh opens nothing before"
        principal, wake = self._signed_in
        if principal in await self._state.identities.ended([principal]):
            raise CodeHubError(REVOKED.sentence)
        record = await self._find(host, principal)
        client = f"{principal.user.id} key {principal.key_id}"
        to_wake = self._usage(WAKE_SUFFIX, record.name)
        return await admit(record, principal, self._state, wake=wake, client=client, to_wake=to_wake)

    async def _find(self, host: str, principal: Principal) -> WorkspaceRecord:
        """Find a workspace of this very person by name or id. To everybody else it does not exist."""
        reference = unicodedata.normalize("NFC", host.removesuffix(SUFFIX)).strip()[:256]
        async with self._state.reading() as session:
            if "\x00" not in reference:
                found = await queries.find_named(session, principal.user.id, reference)
                if found is not None:
                    return found
            with contextlib.suppress(ValueError):
                found = await queries.find(session, UUID(reference))
                if found is not None and found.view.owner_id == principal.user.id:
                    return found
        raise NoSuchWorkspace(f"You have no such workspace. {ELSEWHERE}: {self._usage()}")

    def _on_end(self, channel: ChannelClient, end: SessionEnd) -> None:
        self._channels.discard(channel)
        if end.sentence and not self._channels:
            self.disconnect(end.sentence)  # a channel ends without words; a connection does not
        else:
            channel.close()


class _HasPeer(Protocol):
    def get_extra_info(self, name: str, default: object = None) -> object: ...


def address_of(connection: _HasPeer) -> str:
    """The address at the other end; empty: it is gone already."""
    peer = connection.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


class NoSuchWorkspace(NotFound):
    """Neither a name nor an id of a workspace of this person."""

    def __init__(self, sentence: str) -> None:
        CodeHubError.__init__(self, sentence)


def _refuse(sentence: str) -> NoReturn:
    raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, sentence) from None
