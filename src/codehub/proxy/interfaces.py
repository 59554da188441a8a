"""What the proxy needs from the rest of CodeHub, and nothing more.

The engine knows sockets and HTTP; who a person is, where a workspace runs and how one is woken comes
through these protocols. ``server/wiring`` implements them over services, store and signals; tests
implement them in memory. All of them are off the hot path: answers of ``Directory`` are cached for two
seconds and thrown away when the directory reports a change.
"""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from codehub.domain.states import Role
from codehub.proxy.settings import Address, TcpAddress


class CredentialKind(StrEnum):
    SESSION = "session"  # the dashboard's cookie
    TOKEN = "token"  # Authorization: Bearer chp_…
    WORKSPACE = "workspace"  # the host-only cookie of one workspace's own origin


@dataclass(frozen=True)
class Credential:
    """What a request shows to say who it is. Never logged: ``secret`` opens doors."""

    kind: CredentialKind
    secret: str
    workspace_id: UUID | None = None  # for WORKSPACE: the origin that sent it, which must match

    def __repr__(self) -> str:
        return f"Credential({self.kind.value})"


@dataclass(frozen=True)
class Principal:
    """Who it turned out to be, and the session it hangs on: a cookie made from it ends with it."""

    user_id: UUID
    role: Role
    session_id: UUID | None = None

    def may_open(self, target: "WorkspaceTarget") -> bool:
        return self.user_id == target.owner_id or self.role is Role.ADMIN


class Phase(StrEnum):
    """``status`` of the API, folded to what the proxy tells apart."""

    RUNNING = "running"
    ASLEEP = "asleep"  # standby, archived, new, stopping, archiving: only a request brings it back
    WAKING = "waking"  # provisioning, restoring, starting on the way to RUNNING, which is wanted
    ERROR = "error"


@dataclass(frozen=True)
class ErrorNote:
    """Why a workspace is in ERROR, in the words of ``error_info``."""

    reason: str
    message: str


@dataclass(frozen=True)
class WorkspaceTarget:
    """Where one workspace is, as far as it may be opened. A deleted one has no target.

    ``strip_prefix``: the image does not use ``{base_path}``, so it must see paths without ``/w/{id}``.
    ``starting_up``: it reached RUNNING a moment ago; a refused connection is no fault yet.
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
    WAKING = "waking"
    LIMIT = "limit"
    ERROR = "error"
    GONE = "gone"


@dataclass(frozen=True)
class RunningWorkspace:
    """One line of the page that says which workspaces use up the limit."""

    id: UUID
    name: str


@dataclass(frozen=True)
class WakeOutcome:
    result: WakeResult
    running: Sequence[RunningWorkspace] = ()  # LIMIT: this person's, each may be stopped
    allowed: int | None = None
    is_global: bool = False  # LIMIT: everybody's limit, so stopping an own one may not help
    error: ErrorNote | None = None


class ChangeListener(Protocol):
    """What the proxy wants to hear from a directory. Cheap and callable from any loop callback."""

    def workspace_changed(self, workspace_id: UUID) -> None: ...

    def user_changed(self, user_id: UUID) -> None:
        """Signed out, disabled, role changed, token revoked…"""

    def everything_changed(self) -> None:
        """The feed was interrupted: what was missed is unknown."""


class Directory(Protocol):
    """Who may open what, and where it is. May raise anything: the request is then answered 503."""

    async def resolve(self, credential: Credential) -> Principal | None: ...

    async def workspace(self, workspace_id: UUID) -> WorkspaceTarget | None: ...

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None:
        """Where another port of a running workspace is reached. None unless the workspace itself listens
        there: on a shared host it may be somebody else's, the database's for example."""

    async def listener(self, workspace_id: UUID, address: TcpAddress) -> Hashable | None:
        """Which socket takes connections at the address; None unless it is this workspace's own.

        Asked right before and right after connecting. An address is remembered for a while, and whoever
        binds a port its owner has left would get the requests meant for the owner.
        """

    async def wake(self, workspace_id: UUID, principal: Principal) -> WakeOutcome:
        """Set the desired state RUNNING in this person's name. Idempotent: a waking workspace answers WAKING."""

    async def hint_observer(self, workspace_id: UUID) -> None:
        """The address does not answer: look soon whether the container is still there."""

    def subscribe(self, listener: ChangeListener) -> None:
        """Report changes from now on. Losing one makes the proxy two seconds late, never wrong."""


class SignIn(Protocol):
    """The one-time codes that carry a sign-in from the dashboard to a workspace's own origin."""

    async def issue_code(self, principal: Principal, workspace_id: UUID) -> str:
        """A code valid for 30 s, for one redemption, for this workspace."""

    async def redeem_code(self, code: str, workspace_id: UUID) -> str | None:
        """The secret for that workspace's cookie, or None: unknown, used, expired, another's."""


class Use(StrEnum):
    """What a lease stands for: one WebSocket, or all requests in flight of one proxy to a workspace."""

    HTTP = "http"
    WEBSOCKET = "websocket"


class Activity(Protocol):
    """The lease set and idle timer of spec 06. Called in the background; may raise, then is retried."""

    async def lease(self, workspace_id: UUID, conn_id: str, use: Use) -> None:
        """Take or renew. Gone by itself after 90 s, so a proxy that dies leaves nothing behind."""

    async def release(self, workspace_id: UUID, conn_id: str, use: Use) -> None: ...

    async def touch(self, workspace_id: UUID) -> None: ...

    async def mark_active(self, workspace_ids: Collection[UUID]) -> None:
        """The two above have failed for 30 s: say "in use" in PostgreSQL (``active_until``)."""


@dataclass(frozen=True)
class Interfaces:
    """Everything the engine is given."""

    directory: Directory
    sign_in: SignIn
    activity: Activity
