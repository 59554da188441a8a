"""Protocols and settings the API depends on. ``server/wiring`` supplies them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from prometheus_client import REGISTRY, CollectorRegistry

from codehub.archives.store import ArchiveObject, CommittedArchive
from codehub.domain.ttl import Activity
from codehub.services.passwords import Passwords
from codehub.services.workspaces import RunningLimits
from codehub.signals.live import LiveFeed, LivePublisher
from codehub.signals.rate_limit import RateLimit
from codehub.store.db.session import Sessions

WhyNotReady = Callable[[], Awaitable[str | None]]
"""Returns None when ready, otherwise the reason as a sentence."""

CoordinatorHealth = Callable[[], Awaitable[Mapping[str, Any]]]
"""Returns the body of ``/health/coordinator``; times may be datetimes."""

VerifyPrincipal = Callable[[str], UUID | None]
"""Verifies ``X-CodeHub-Principal`` and returns the user's id; None: not signed by the proxy, or expired."""


class RuntimeView(Protocol):
    """The read-only part of a runtime that the API uses."""

    def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]: ...

    async def images(self) -> list[str]: ...

    async def observe(self, ids: Collection[UUID] | None = None) -> Any: ...


class ArchiveCatalogue(Protocol):
    """The read-only part of the archive store that the API uses."""

    async def find_committed(
        self, workspace_id: UUID, op_id: UUID | None = None
    ) -> Sequence[CommittedArchive]: ...

    def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]: ...


class ActivityReader(Protocol):
    """Reads activity and sets idle timers in Redis. Both raise ``RedisUnavailable``."""

    async def read_many(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Activity]: ...

    async def retime(self, workspace_id: UUID, ttl_seconds: float) -> None:
        """Set the running idle timer to another length."""


@dataclass(frozen=True)
class ApiSettings:
    """Settings of the API.

    ``base_url``: the public URL; with ``https`` cookies are Secure and named ``__Host-…``. ``trusted_peers``:
    addresses whose ``X-Forwarded-For`` is used, besides the Unix socket's. ``max_retries`` is the Reconciler's,
    shown to people.
    """

    base_url: str
    base_domain: str | None = None
    limits: RunningLimits = field(default_factory=RunningLimits)
    standby_ttl_seconds: int = 300
    archive_ttl_seconds: int = 86400
    default_image: str | None = None
    max_retries: int = 3
    trusted_peers: frozenset[str] = frozenset()
    heartbeat_seconds: float = 30.0

    @property
    def is_https(self) -> bool:
        return self.base_url.startswith("https://")


@dataclass(frozen=True)
class ApiDependencies:
    """Everything the API is constructed with.

    ``read_sessions``: autocommit, for requests that change nothing. ``activity`` None: there is no Redis.
    ``publisher`` None: changed rights are not announced to other replicas. ``verify_principal`` None: the header
    ``X-CodeHub-Principal`` is ignored.
    """

    settings: ApiSettings
    sessions: Sessions
    read_sessions: Sessions
    live: LiveFeed
    runtime: RuntimeView
    archives: ArchiveCatalogue
    rate_limit: RateLimit
    passwords: Passwords
    why_not_ready: WhyNotReady
    coordinator_health: CoordinatorHealth
    activity: ActivityReader | None = None
    publisher: LivePublisher | None = None
    verify_principal: VerifyPrincipal | None = None
    metrics: CollectorRegistry = REGISTRY
