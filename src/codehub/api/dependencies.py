"""What the API is given. Only ``server/wiring`` knows which concrete parts these are."""

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
"""None when ready, otherwise the reason in words."""

CoordinatorHealth = Callable[[], Awaitable[Mapping[str, Any]]]
"""The whole answer of ``/health/coordinator``; times may be datetimes."""

VerifyPrincipal = Callable[[str], UUID | None]
"""Whose ``X-CodeHub-Principal`` this is; None when the proxy did not write it."""


class RuntimeView(Protocol):
    """The part of a runtime that people ask through the API; it changes nothing."""

    def logs(self, workspace_id: UUID, *, follow: bool = False) -> AsyncIterator[bytes]: ...

    async def images(self) -> list[str]: ...

    async def observe(self, ids: Collection[UUID] | None = None) -> Any: ...


class ArchiveCatalogue(Protocol):
    async def find_committed(
        self, workspace_id: UUID, op_id: UUID | None = None
    ) -> Sequence[CommittedArchive]: ...

    def list_paths(self, prefix: str | None = None) -> AsyncIterator[list[ArchiveObject]]: ...


class ActivityReader(Protocol):
    """Both raise ``RedisUnavailable``."""

    async def read_many(self, workspace_ids: Collection[UUID]) -> Mapping[UUID, Activity]: ...

    async def retime(self, workspace_id: UUID, ttl_seconds: float) -> None:
        """Its idle period has another length from now on."""


@dataclass(frozen=True)
class ApiSettings:
    """``base_url``: how people reach CodeHub; its scheme decides about Secure and ``__Host-``.

    ``trusted_peers``: addresses whose ``X-Forwarded-For`` counts, besides the Unix socket's. ``node_id``
    and ``version`` are for people. ``max_retries`` is the Reconciler's, for people to know.
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
    """Everything from outside. ``read_sessions``: autocommit, for requests that change nothing.

    ``activity`` None: this installation has no Redis to ask. ``publisher`` None: and nobody to tell at once
    whose rights have changed. ``verify_principal`` None: the header
    ``X-CodeHub-Principal`` means nothing.
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
