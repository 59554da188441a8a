"""Wire the application: the only place that names concrete classes."""

import asyncio
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from fastapi import FastAPI

from codehub.api.app import create_app
from codehub.api.dependencies import ApiDependencies, ApiSettings
from codehub.archives.store import ArchiveStore
from codehub.domain.errors import EffectError
from codehub.kit.addresses import AddressSet
from codehub.proxy.identity import verify_principal
from codehub.server.busy_sampling import build_busy_sampler
from codehub.server.control_plane import ControlPlane, CoordinatorDeps, build_control_plane
from codehub.server.coordinator_health import CoordinatorHealth
from codehub.server.inside_access import build_inside_access
from codehub.server.processes.embedded import Endpoints
from codehub.server.runtime_choice import HostedRuntime, build_runtime, ties_home_to_node
from codehub.server.settings.prices import PriceSettings
from codehub.server.settings.tree import ProcessRole, Settings
from codehub.server.shared_parts import redis_link, running_limits, use_policy
from codehub.server.ssh_access import build_ssh_access
from codehub.server.ssh_gateway import build_ssh_gateway, gateway_address
from codehub.services.passwords import Passwords
from codehub.services.readiness import Readiness
from codehub.services.savings import Price
from codehub.signals.activity import ActivityLog
from codehub.signals.connection import RedisLink
from codehub.signals.hints import Hints, HintTarget
from codehub.signals.live import LiveFeed, LivePublisher
from codehub.signals.postgres_fallback import PostgresFallback
from codehub.signals.rate_limit import SharedRateLimit
from codehub.store import control
from codehub.store.cluster.installation import InstallationRecord, get_or_create
from codehub.store.db.connections import (
    asyncpg_dsn,
    coordinator_connector,
    create_pool,
    reading_session_factory,
    session_factory,
)
from codehub.store.db.pool import Pool
from codehub.store.db.session import Sessions
from codehub.store.workspaces import queries

if TYPE_CHECKING:
    from codehub.api.ssh.gateway.port import GatewayPort

log = structlog.get_logger(__name__)


@dataclass
class Application:
    """The ASGI application, and what runs beside it."""

    asgi: FastAPI
    pool: Pool
    redis: RedisLink
    live: LiveFeed
    postgres_fallback: PostgresFallback
    runtime: HostedRuntime
    control_plane: ControlPlane | None
    ssh_gateway: "GatewayPort | None" = None
    started_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    async def start(self) -> None:
        """Start what runs beside the HTTP server."""
        self.live.start()
        self.postgres_fallback.start()
        if self.control_plane is not None:
            self.control_plane.start()

    async def step_down(self) -> None:
        """Stop coordinating; requests are still answered."""
        if self.control_plane is not None:
            await self.control_plane.stop()
            self.control_plane = None

    async def stop(self, *, stop_workspaces: bool) -> None:
        """Stop everything and close connections.

        ``stop_workspaces``: stop workspaces too; desired states stay.
        """
        await self.step_down()
        if stop_workspaces:
            try:
                await self.runtime.stop_all()
            except EffectError as error:  # an engine that is away must not prevent the exit
                log.warning("workspaces go on", error=error.message)
        await self.runtime.close()
        await self.postgres_fallback.close()
        await self.live.close()
        await self.redis.close()
        await self.pool.dispose()


async def build(settings: Settings, endpoints: Endpoints) -> Application:
    """Build the application. Connects to the database only: the rest may be away now."""
    pool = create_pool(endpoints.database_url)  # and none beyond it: under load they cost more than requests
    sessions = session_factory(pool)
    installation, has_homes = await _installation(sessions)
    archives = ArchiveStore.from_url(settings.archive_url, create=True)
    redis = redis_link(settings, endpoints.redis_url, client_name=settings.coordinator.node_id)
    hints = Hints(redis, prefix=settings.redis.channel_wake_prefix)
    on_exit = _ExitHints(hints).publish
    runtime = await build_runtime(settings, installation, has_homes=has_homes, on_exit=on_exit)
    parts = CoordinatorDeps(
        store=control,
        connectors=partial(coordinator_connector, endpoints.database_url),
        runtime=runtime,
        archives=archives,
        hints=hints,
        live=LivePublisher(redis),
        activity=ActivityLog(redis),
        busy=build_busy_sampler(settings, runtime),
    )
    control_plane = _control_plane(settings, parts)
    live, activity = LiveFeed(redis), ActivityLog(redis)
    dependencies = ApiDependencies(
        settings=_api_settings(settings, secret=installation.secret),
        sessions=sessions,
        read_sessions=reading_session_factory(pool),  # autocommit: reading needs no BEGIN and no ROLLBACK
        live=live,
        runtime=runtime,
        archives=archives,
        rate_limit=SharedRateLimit(redis),
        passwords=Passwords(),
        why_not_ready=Readiness(reading_session_factory(pool)).why_not_ready,
        coordinator_health=CoordinatorHealth(settings, control_plane, sessions),
        activity=activity,
        publisher=LivePublisher(redis),
        ssh=build_ssh_access(settings, runtime, secret=installation.secret, leases=activity),
        inside=build_inside_access(settings, runtime, leases=activity),
        verify_principal=lambda value: _verified_user(value, installation.secret),
    )
    asgi = create_app(dependencies)
    return Application(
        asgi,
        ssh_gateway=build_ssh_gateway(asgi.state.codehub, secret=installation.secret),
        pool=pool,
        redis=redis,
        live=live,
        postgres_fallback=PostgresFallback(live, dsn=asyncpg_dsn(endpoints.database_url)),
        runtime=runtime,
        control_plane=control_plane,
    )


async def _installation(sessions: Sessions) -> tuple[InstallationRecord, bool]:
    """The installation of this database, and whether it has homes already."""
    async with sessions() as session, session.begin():
        return await get_or_create(session), await queries.any_home(session)


def _control_plane(settings: Settings, parts: CoordinatorDeps) -> ControlPlane | None:
    coordinates = ProcessRole.COORDINATORS in settings.http.roles
    return build_control_plane(_without_start_jitter(settings), parts) if coordinates else None


class _ExitHints:
    """Hints the Observer when a container ended, without waiting for Redis."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._tasks: set[asyncio.Task[bool]] = set()

    def publish(self, workspace_id: UUID) -> None:
        task = asyncio.ensure_future(self._hints.publish(HintTarget.OBSERVER, [workspace_id]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _verified_user(value: str, secret: bytes) -> UUID | None:
    """The user a proxy signed for, where the dashboard's cookie is not sent."""
    principal = verify_principal(value, secret=secret, now=time.time())
    return principal.user_id if principal is not None else None


def _api_settings(settings: Settings, *, secret: bytes) -> ApiSettings:
    return ApiSettings(
        base_url=settings.base_url,
        base_domain=settings.http.base_domain,
        limits=running_limits(settings),
        standby_ttl_seconds=settings.ttl.standby_seconds,
        archive_ttl_seconds=settings.ttl.archive_seconds,
        use_policy=use_policy(settings),
        default_image=settings.runtime.default_image,
        max_retries=settings.reconciler.max_retries,
        trusted_peers=AddressSet(settings.http.trusted_proxies),
        ties_home_to_node=ties_home_to_node(settings),
        price=_price(settings.prices),
        ssh_gateway=gateway_address(settings, secret=secret),
    )


def _price(prices: PriceSettings) -> Price | None:
    return None if prices.running_hour is None else Price(prices.running_hour, prices.currency)


def _without_start_jitter(settings: Settings) -> Settings:
    """No start jitter with an embedded database: there are no replicas to spread elections over."""
    if settings.database.url is not None:
        return settings
    at_once = settings.coordinator.model_copy(update={"start_jitter": 0.0})
    return settings.model_copy(update={"coordinator": at_once})
