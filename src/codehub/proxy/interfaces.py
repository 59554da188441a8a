"""Protocols and values the proxy needs from the rest of CodeHub.

The engine knows sockets and HTTP; identities, addresses of workspaces and waking come through these
protocols. ``server/proxy`` implements them over services, store and signals; tests implement them in memory.
All of them are off the hot path: answers of ``Directory`` are cached for up to 2 s and dropped when the
directory reports a change.
"""

import socket
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from codehub.domain.port_shares import ShareLevel
from codehub.domain.states import Role
from codehub.domain.waking import ErrorNote, Phase, WakeOutcome
from codehub.proxy.settings import SocketAddress, TcpAddress


class CredentialKind(StrEnum):
    """Where a credential was found in a request."""

    SESSION = "session"  # the dashboard's cookie
    TOKEN = "token"  # Authorization: Bearer chp_…
    WORKSPACE = "workspace"  # the host-only cookie of one workspace's own origin


@dataclass(frozen=True)
class Credential:
    """A secret that authenticates a request. Never logged: ``repr`` omits ``secret``."""

    kind: CredentialKind
    secret: str
    workspace_id: UUID | None = None  # for WORKSPACE: the origin that sent it, which must match

    def __repr__(self) -> str:
        return f"Credential({self.kind.value})"


@dataclass(frozen=True)
class Principal:
    """The person a credential belongs to.

    Workspace cookies issued from ``session_id`` end with that session.
    """

    user_id: UUID
    role: Role
    session_id: UUID | None = None

    def may_open(self, target: "WorkspaceTarget") -> bool:
        """Whether this person is the owner or an admin."""
        return self.user_id == target.owner_id or self.role is Role.ADMIN


@dataclass(frozen=True)
class SharedPort:
    """Who may open a port besides the owner. Never above the installation's ceiling.

    ``expires_at``: seconds since the epoch. ``key``: of the public link.
    """

    level: ShareLevel
    expires_at: float = float("inf")
    key: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class WorkspaceTarget:
    """Phase, owner and address of one workspace. A deleted workspace has no target.

    ``strip_prefix``: the image does not use ``{base_path}``, so it must see paths without ``/w/{id}``.
    ``paused``: in ERROR because its container is frozen; it accepts connections and answers nothing.
    ``starting_up``: it reached RUNNING recently, so a refused connection is not an error yet.
    ``tab_script``: its documents get the tab's script, unless the settings say otherwise.
    ``shares``: ports that others may open, at their own origins.
    """

    id: UUID
    owner_id: UUID
    name: str
    phase: Phase
    status: str
    address: SocketAddress | None = None
    strip_prefix: bool = True
    starting_up: bool = False
    error: ErrorNote | None = None
    paused: bool = False
    progress: int | None = None
    version: int = 0
    tab_script: bool = True
    shares: Mapping[int, SharedPort] = field(default_factory=dict, hash=False)


class DirectoryListener(Protocol):
    """Receives changes from a directory.

    Methods are cheap and callable from any loop callback.
    """

    def workspace_changed(self, workspace_id: UUID) -> None: ...

    def user_changed(self, user_id: UUID) -> None:
        """A person signed out or was disabled, their role changed, a token was revoked …"""

    def everything_changed(self) -> None:
        """Drop every cached answer.

        The feed was interrupted, and the missed changes are unknown.
        """


class Directory(Protocol):
    """Resolves credentials, workspaces and ports.

    May raise anything: the request is then answered 503.
    """

    async def resolve(self, credential: Credential) -> Principal | None: ...

    async def workspace(self, workspace_id: UUID) -> WorkspaceTarget | None: ...

    async def port_address(self, workspace_id: UUID, port: int) -> SocketAddress | None:
        """Find the address of another port of a running workspace.

        None unless the workspace itself listens there: on a shared host the port may belong to another process,
        the database for example.
        """

    async def listener(self, workspace_id: UUID, address: TcpAddress) -> Hashable | None:
        """Identify the socket that listens at the address; None unless the workspace's.

        Called right before and right after connecting. Addresses are cached, and another process that binds a
        port the workspace has closed would otherwise get the workspace's requests.
        """

    async def tunnel(self, workspace_id: UUID, port: int) -> socket.socket | None:
        """Connect to a port of the workspace's own loopback, after its address has refused.

        None: nothing listens there either, or the workspace has no loopback of its own.
        """

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        """Set the desired state RUNNING on behalf of this person.

        Idempotent: a waking workspace answers WAKING.
        """

    async def hint_observer(self, workspace_id: UUID) -> None:
        """Send the Observer a hint: the address refuses connections. May be lost."""

    def subscribe(self, listener: DirectoryListener) -> None:
        """Report changes from now on.

        A lost report is made up for by the cache's TTL of 2 s.
        """


class SignInCodes(Protocol):
    """Issues and redeems one-time codes that sign in at a workspace's own origin."""

    async def issue_code(self, principal: Principal, workspace_id: UUID) -> str:
        """Issue a code valid for 30 s, for one redemption, for this workspace."""

    async def redeem_code(self, code: str, workspace_id: UUID) -> str | None:
        """Return the secret for the workspace's cookie.

        None: unknown, used, expired, or of another workspace.
        """


class Use(StrEnum):
    """What a lease covers: one WebSocket, or one proxy's requests to a workspace."""

    HTTP = "http"
    WEBSOCKET = "websocket"


class ActivityRecorder(Protocol):
    """Records leases and the idle timer.

    Called in the background; may raise, and is retried then.
    """

    async def lease(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None:
        """Take or renew a lease.

        Idempotent. Expires after 90 s, so those of a proxy that died expire too. ``input_age``: seconds since
        the last input of a person that this proxy has seen; None: it has seen none.
        """

    async def release(
        self, workspace_id: UUID, conn_id: str, use: Use, *, input_age: float | None = None
    ) -> None: ...

    async def touch(self, workspace_id: UUID, *, input_age: float | None = None) -> None: ...

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        """Record "in use" in PostgreSQL (``active_until``), while leases and touches fail."""


@dataclass(frozen=True)
class Interfaces:
    """All protocols the engine is constructed with."""

    directory: Directory
    sign_in: SignInCodes
    activity: ActivityRecorder
