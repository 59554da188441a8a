"""Protocols and values the proxy needs from the rest of CodeHub.

The engine knows sockets and HTTP; identities, addresses of workspaces and waking come through these
protocols. ``server/proxy`` implements them over services, store and signals; tests implement them in memory.
All of them are off the hot path: answers of ``Directory`` are cached for up to 2 s and dropped when the
directory reports a change.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from codehub.domain.states import Role
from codehub.proxy.settings import Address, TcpAddress


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


class Phase(StrEnum):
    """The API's ``status``, reduced to what the access policy distinguishes."""

    RUNNING = "running"
    ASLEEP = "asleep"  # standby, archived, new, stopping, archiving: RUNNING is not desired
    WAKING = "waking"  # provisioning, restoring, starting: RUNNING is desired
    ERROR = "error"


@dataclass(frozen=True)
class ErrorNote:
    """Reason and message of a workspace in ERROR, from ``error_info``."""

    reason: str
    message: str


@dataclass(frozen=True)
class WorkspaceTarget:
    """Phase, owner and address of one workspace. A deleted workspace has no target.

    ``strip_prefix``: the image does not use ``{base_path}``, so it must see paths without ``/w/{id}``.
    ``starting_up``: it reached RUNNING recently, so a refused connection is not an error yet.
    """

    id: UUID
    owner_id: UUID
    name: str
    phase: Phase
    status: str
    address: Address | None = None
    strip_prefix: bool = True
    starting_up: bool = False
    error: ErrorNote | None = None
    progress: int | None = None
    version: int = 0


class WakeResult(StrEnum):
    """How an attempt to wake a workspace ended."""

    WAKING = "waking"
    LIMIT = "limit"
    ERROR = "error"
    GONE = "gone"


@dataclass(frozen=True)
class RunningWorkspace:
    """A running workspace, as listed on the page about the limit."""

    id: UUID
    name: str


@dataclass(frozen=True)
class WakeOutcome:
    """The result of a wake, with what its page shows."""

    result: WakeResult
    running: Sequence[RunningWorkspace] = ()  # LIMIT: this person's running workspaces
    allowed: int | None = None
    is_global: bool = False  # LIMIT: of the installation, so stopping an own workspace may not help
    error: ErrorNote | None = None


class ChangeListener(Protocol):
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

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        """Find the address of another port of a running workspace.

        None unless the workspace itself listens there: on a shared host the port may belong to another process,
        the database for example.
        """

    async def listener(self, workspace_id: UUID, address: TcpAddress) -> Hashable | None:
        """Identify the socket that listens at the address; None unless the workspace's.

        Called right before and right after connecting. Addresses are cached, and another process that binds a
        port the workspace has closed would otherwise get the workspace's requests.
        """

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        """Set the desired state RUNNING on behalf of this person.

        Idempotent: a waking workspace answers WAKING.
        """

    async def hint_observer(self, workspace_id: UUID) -> None:
        """Send the Observer a hint: the address refuses connections. May be lost."""

    def subscribe(self, listener: ChangeListener) -> None:
        """Report changes from now on.

        A lost report is made up for by the cache's TTL of 2 s.
        """


class SignIn(Protocol):
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


class Activity(Protocol):
    """Records leases and the idle timer (spec 06).

    Called in the background; may raise, and is retried then.
    """

    async def lease(self, workspace_id: UUID, conn_id: str, use: Use) -> None:
        """Take or renew a lease.

        Idempotent. Expires after 90 s, so those of a proxy that died expire too.
        """

    async def release(self, workspace_id: UUID, conn_id: str, use: Use) -> None: ...

    async def touch(self, workspace_id: UUID) -> None: ...

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        """Record "in use" in PostgreSQL (``active_until``), while leases and touches fail."""


@dataclass(frozen=True)
class Interfaces:
    """All protocols the engine is constructed with."""

    directory: Directory
    sign_in: SignIn
    activity: Activity
