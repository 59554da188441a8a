"""Wire the application: the only place that names concrete classes."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

import structlog
from fastapi import FastAPI

from codehub.api.app import create_app
from codehub.api.dependencies import ApiDependencies, ApiSettings, SettingValue
from codehub.archives.contents_reader import ContentsReader
from codehub.archives.store import ArchiveStore
from codehub.domain.errors import EffectError
from codehub.domain.workspace import WorkspaceView
from codehub.kit.addresses import AddressSet
from codehub.proxy.identity import verify_principal
from codehub.server.busy_sampling import build_busy_sampler
from codehub.server.control_plane import ControlPlane, CoordinatorDeps, build_control_plane
from codehub.server.coordinator_health import CoordinatorHealth
from codehub.server.inside_access import build_inside_access
from codehub.server.port_environment import port_environment
from codehub.server.processes.embedded import Endpoints
from codehub.server.proxy.port_tunnels import TunnelVerifier
from codehub.server.runtime_choice import HostedRuntime, build_runtime, image_installations, ties_home_to_node
from codehub.server.settings.prices import PriceSettings
from codehub.server.settings.tree import ProcessRole, Settings
from codehub.server.settings.variables import list_values
from codehub.server.shared_parts import redis_link, running_limits, share_policy, use_policy
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
    installation, has_homes = await _installation(sessions := session_factory(pool))
    archives = ArchiveStore.from_url(settings.archive_url, create=True)
    redis = redis_link(settings, endpoints.redis_url, client_name=settings.coordinator.node_id)
    hints = Hints(redis, prefix=settings.redis.channel_wake_prefix)
    runtime = await build_runtime(settings, installation, has_homes=has_homes, on_exit=_on_exit(hints))
    live, activity, publisher = LiveFeed(redis), ActivityLog(redis), LivePublisher(redis)
    parts = CoordinatorDeps(
        store=control,
        connectors=partial(coordinator_connector, endpoints.database_url),
        runtime=runtime,
        archives=archives,
        hints=hints,
        live=publisher,
        activity=activity,
        busy=build_busy_sampler(settings, runtime),
    )
    control_plane = _control_plane(settings, parts)
    dependencies = ApiDependencies(
        settings=_api_settings(settings, secret=installation.secret),
        sessions=sessions,
        read_sessions=reading_session_factory(pool),  # autocommit: reading needs no BEGIN and no ROLLBACK
        live=live,
        runtime=runtime,
        archives=archives,
        contents=ContentsReader(archives, index_directory=settings.data_dir / "cache" / "archive-indexes"),
        rate_limit=SharedRateLimit(redis),
        passwords=Passwords(),
        why_not_ready=Readiness(reading_session_factory(pool)).why_not_ready,
        coordinator_health=CoordinatorHealth(settings, control_plane, sessions),
        activity=activity,
        publisher=publisher,
        ssh=build_ssh_access(settings, runtime, secret=installation.secret, leases=activity),
        inside=build_inside_access(settings, runtime, leases=activity),
        installations=image_installations(settings),
        verify_principal=partial(_verified_user, secret=installation.secret),
        verify_tunnel=TunnelVerifier(installation.secret),
    )
    return Application(
        asgi := create_app(dependencies),
        ssh_gateway=build_ssh_gateway(asgi.state.codehub, secret=installation.secret),
        pool=pool,
        redis=redis,
        live=live,
        postgres_fallback=PostgresFallback(live, dsn=asyncpg_dsn(endpoints.database_url)),
        runtime=runtime,
        control_plane=control_plane,
    )


def _setting_values(settings: Settings) -> list[SettingValue]:
    return [
        SettingValue(
            name=each.variable.name,
            value=each.value,
            default=each.variable.default,
            meaning=each.variable.meaning,
            secret=each.variable.secret,
            changed=each.changed,
        )
        for each in list_values(settings)
    ]


def _environment(settings: Settings, ws: WorkspaceView) -> Mapping[str, str]:
    """Variables of a workspace, beside those its runtime sets."""
    return port_environment(ws.id, base_url=settings.base_url, base_domain=settings.http.base_domain)


async def _installation(sessions: Sessions) -> tuple[InstallationRecord, bool]:
    """The installation of this database, and whether it has homes already."""
    async with sessions() as session, session.begin():
        return await get_or_create(session), await queries.any_home(session)


def _control_plane(settings: Settings, parts: CoordinatorDeps) -> ControlPlane | None:
    if ProcessRole.COORDINATORS not in settings.http.roles:
        return None
    parts = replace(parts, env=partial(_environment, settings))
    return build_control_plane(_without_start_jitter(settings), parts)


class _ExitHints:
    """Hints the Observer when a container ended, without waiting for Redis."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._tasks: set[asyncio.Task[bool]] = set()

    def publish(self, workspace_id: UUID) -> None:
        task = asyncio.ensure_future(self._hints.publish(HintTarget.OBSERVER, [workspace_id]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _on_exit(hints: Hints) -> Callable[[UUID], None]:
    return _ExitHints(hints).publish


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
        values=_setting_values(settings),
        share_policy=share_policy(settings),
        link_secret=secret,
    )


def _price(prices: PriceSettings) -> Price | None:
    if prices.running_hour is None and prices.gb_month is None:
        return None
    return Price(prices.running_hour or 0.0, prices.currency, prices.gb_month or 0.0)


def _without_start_jitter(settings: Settings) -> Settings:
    """No start jitter with an embedded database: there are no replicas to spread elections over."""
    if settings.database.url is not None:
        return settings
    at_once = settings.coordinator.model_copy(update={"start_jitter": 0.0})
    return settings.model_copy(update={"coordinator": at_once})
