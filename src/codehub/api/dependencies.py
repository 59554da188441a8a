"""Protocols and settings the API depends on. ``server/wiring`` supplies them."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from prometheus_client import REGISTRY, CollectorRegistry

from codehub.archives.contents import ArchiveContents
from codehub.archives.keys import ArchivePath
from codehub.archives.meta import ArchiveMeta
from codehub.archives.store import ArchiveObject, CommittedArchive
from codehub.domain.limits import RunningLimits
from codehub.domain.port_shares import SharePolicy
from codehub.domain.ttl import Activity, UsePolicy
from codehub.kit.addresses import AddressSet
from codehub.runtimes.base import InstallableImage
from codehub.runtimes.exec_stream import ExecStream
from codehub.services.passwords import Passwords
from codehub.services.savings import Price
from codehub.signals.live import LiveFeed, LivePublisher
from codehub.signals.rate_limit import RateLimit
from codehub.store.db.session import Sessions

WhyNotReady = Callable[[], Awaitable[str | None]]
"""Returns None when ready, otherwise the reason as a sentence."""

ReadCoordinatorHealth = Callable[[], Awaitable[Mapping[str, Any]]]
"""Returns the body of ``/health/coordinator``; times may be datetimes."""

DescribeInstallations = Callable[[], Awaitable[Sequence[InstallableImage]]]
"""Describes the images that are installed at their first use, as they are now."""

VerifyPrincipal = Callable[[str], UUID | None]
"""Verifies ``X-CodeHub-Principal`` and returns the user's id; None: not signed by the proxy, or expired."""


@dataclass(frozen=True)
class SettingValue:
    """One setting as this replica has it. ``value`` None: not set, or secret."""

    name: str
    value: str | None
    default: str
    meaning: str
    secret: bool
    changed: bool


VerifyTunnel = Callable[[str, UUID, int], bool]
"""Verifies ``X-CodeHub-Tunnel``: whether a proxy asks for this port of this workspace."""


def never_tied(image_ref: str) -> bool:
    """Homes of no image are on one node of several: there are no nodes, or every node reaches them."""
    return False


class RuntimeView(Protocol):
    """The read-only part of a runtime that the API uses."""

    def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]: ...

    async def images(self) -> list[str]: ...

    async def observe(self, ids: Collection[UUID] | None = None) -> Any: ...


class ArchiveReader(Protocol):
    """The read-only part of the archive store that the API uses."""

    async def find_committed(
        self, workspace_id: UUID, op_id: UUID | None = None
    ) -> Sequence[CommittedArchive]: ...

    async def find_attempt(
        self, workspace_id: UUID, op_id: UUID, attempt: str
    ) -> tuple[ArchivePath, ArchiveMeta]: ...

    def stream(self, path: ArchivePath, *, size: int) -> AsyncGenerator[bytes, None]: ...

    def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]: ...


class ContentsOpener(Protocol):
    """Opens archives to look into."""

    def open(self, path: ArchivePath, meta: ArchiveMeta) -> ArchiveContents: ...

    def stream_tar_zst(self, path: ArchivePath, meta: ArchiveMeta) -> AsyncGenerator[bytes, None]: ...

    async def close(self) -> None: ...


class ActivityReader(Protocol):
    """Reads activity and sets idle timers in Redis. Both raise ``RedisUnavailable``."""

    async def read_many(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Activity]: ...

    async def retime(self, workspace_id: UUID, ttl_seconds: float) -> None:
        """Set the running idle timer to another length."""


class SshTunnel(Protocol):
    """``inside ssh`` in one workspace, started for one connection."""

    async def read(self) -> bytes:
        """The next bytes for the client; empty: it has ended."""

    async def write(self, data: bytes) -> None:
        """Pass on bytes of the client. Waits while the other side does not read."""

    async def close(self) -> None:
        """End it, and wait until it has ended. Idempotent."""


class Leases(Protocol):
    """Keeps a workspace awake while a connection is open. Both raise ``RedisUnavailable``."""

    async def take(
        self,
        workspace_id: UUID,
        lease_id: str,
        *,
        ttl_seconds: float,
        input_age_seconds: float | None = None,
    ) -> None:
        """``input_age_seconds``: since a person last caused something; None: it cannot be told."""

    async def release(
        self,
        workspace_id: UUID,
        lease_id: str,
        *,
        ttl_seconds: float,
        input_age_seconds: float | None = None,
    ) -> None: ...


class SshAccess(Protocol):
    """Connects people to ``inside ssh`` in their workspaces."""

    @property
    def leases(self) -> Leases: ...

    async def host_key(self, workspace_id: UUID) -> str:
        """The workspace's public host key, as ``known_hosts`` has it: ``ssh-ed25519 …``."""

    async def open(self, workspace_id: UUID, *, keep: bool) -> SshTunnel:
        """Start ``inside ssh``. ``keep``: what is started there outlives the connection. Raises ``EffectError``."""


class InsideAccess(Protocol):
    """Starts ``inside`` in workspaces, to run commands and use files there."""

    @property
    def leases(self) -> Leases: ...

    @property
    def shares_network(self) -> bool:
        """Whether workspaces have the machine's network: other listeners there are nobody's business."""

    async def request(self, workspace_id: UUID) -> ExecStream:
        """Start ``inside request``. Raises ``EffectError``."""

    async def command(self, workspace_id: UUID) -> ExecStream:
        """Start ``inside command``. Raises ``EffectError``."""

    async def ide_port(self, workspace_id: UUID) -> int | None:
        """The port of its IDE; None: it has none, or does not run. Raises ``EffectError``."""

    async def terminal(self, workspace_id: UUID) -> ExecStream:
        """Start ``inside terminal``. Raises ``EffectError``."""

    async def connect(self, workspace_id: UUID, port: int) -> ExecStream:
        """Start ``inside connect``, to a port of the workspace's own loopback. Raises ``EffectError``."""


@dataclass(frozen=True)
class SshGatewayAddress:
    """How people reach the SSH gateway, and the key it shows. ``host_key``: public, as ``known_hosts`` has it."""

    host: str
    port: int
    host_key: str
    fingerprint: str


@dataclass(frozen=True)
class ApiSettings:
    """Settings of the API.

    ``base_url``: the public URL; with ``https`` cookies are Secure and named ``__Host-…``. ``trusted_peers``:
    addresses whose ``X-Forwarded-For`` is used, besides the Unix socket's. ``max_retries`` is the Reconciler's,
    shown to people. ``ties_home_to_node``: whether homes of an image are on one node of several, and lost with it.
    ``price``: of an hour of a running workspace.
    ``ssh_gateway`` None: there is none. ``values``: every setting of this replica, as administrators see them.
    ``share_policy``: who may be let in to ports; ``link_secret``: what the keys of public links are derived from.
    """

    base_url: str
    base_domain: str | None = None
    limits: RunningLimits = field(default_factory=RunningLimits)
    standby_ttl_seconds: int = 300
    archive_ttl_seconds: int = 86400
    use_policy: UsePolicy = field(default_factory=UsePolicy)
    default_image: str | None = None
    max_retries: int = 3
    trusted_peers: AddressSet = field(default_factory=AddressSet)
    heartbeat_seconds: float = 30.0
    ties_home_to_node: Callable[[str], bool] = never_tied
    price: Price | None = None
    ssh_gateway: SshGatewayAddress | None = None
    values: Sequence[SettingValue] = ()
    share_policy: SharePolicy = field(default_factory=SharePolicy)
    link_secret: bytes = field(default=b"", repr=False)

    @property
    def is_https(self) -> bool:
        return self.base_url.startswith("https://")


@dataclass(frozen=True)
class ApiDependencies:
    """Everything the API is constructed with.

    ``read_sessions``: autocommit, for requests that change nothing. ``activity`` None: there is no Redis.
    ``publisher`` None: changed rights are not announced to other replicas. ``verify_principal`` None: the header
    ``X-CodeHub-Principal`` is ignored. ``verify_tunnel`` None: no proxy gets a tunnel to a port. ``ssh``, ``inside``
    None: workspaces do not have the program for it. ``installations`` None: every image is there, or is
    fetched by its engine.
    """

    settings: ApiSettings
    sessions: Sessions
    read_sessions: Sessions
    live: LiveFeed
    runtime: RuntimeView
    archives: ArchiveReader
    contents: ContentsOpener
    rate_limit: RateLimit
    passwords: Passwords
    why_not_ready: WhyNotReady
    coordinator_health: ReadCoordinatorHealth
    activity: ActivityReader | None = None
    publisher: LivePublisher | None = None
    verify_principal: VerifyPrincipal | None = None
    verify_tunnel: VerifyTunnel | None = None
    ssh: SshAccess | None = None
    inside: InsideAccess | None = None
    installations: DescribeInstallations | None = None
    metrics: CollectorRegistry = REGISTRY
