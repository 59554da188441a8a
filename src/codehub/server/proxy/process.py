"""Run the proxy in a process of its own.

A saturated proxy must not slow the coordinators, nor the other way round, so the two share no event loop.
``main`` starts this beside the API and passes it the listening socket; the API is then one more upstream, on a Unix
socket. A process with the proxy role alone runs the same code by itself.
"""

import asyncio
import signal
import socket
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import structlog
import uvloop

from codehub.kit import descriptors, logs, memory
from codehub.kit.addresses import AddressSet
from codehub.kit.listening import stop_arrivals
from codehub.proxy.interfaces import Interfaces
from codehub.proxy.server import ProxyServer
from codehub.proxy.settings import ProxySettings, SocketAddress, TcpAddress, UnixAddress
from codehub.server.proxy.activity import ProxyActivity
from codehub.server.proxy.directory import ProxyDirectory
from codehub.server.proxy.metrics import keep_writing
from codehub.server.proxy.port_tunnels import PortTunnels
from codehub.server.proxy.workspace_cookies import SignedSignIn
from codehub.server.runtime_choice import build_runtime
from codehub.server.settings.logs import LogFormat
from codehub.server.settings.tree import RuntimeKind, Settings, load_settings
from codehub.server.settings.variables import SettingsError
from codehub.server.shared_parts import redis_link, running_limits, share_policy
from codehub.services.identity import Identities
from codehub.services.waking import WakeService
from codehub.signals.activity import ActivityLog
from codehub.signals.activity_publisher import ActivityPublisher
from codehub.signals.connection import RedisLink
from codehub.signals.hints import Hints
from codehub.signals.live import LiveFeed, LivePublisher
from codehub.store.cluster.installation import get_or_create
from codehub.store.db.connections import create_pool, reading_session_factory, session_factory
from codehub.store.db.session import Sessions
from codehub.store.outage import on_loop_error
from codehub.store.workspaces import queries

log = structlog.get_logger(__name__)

DRAIN_SECONDS = 5.0


async def run_proxy(
    settings: Settings,
    *,
    sock: socket.socket,
    database_url: str,
    redis_url: str,
    api: SocketAddress,
    numbers: Path | None = None,
    shares_socket: bool = False,
) -> None:
    """Serve until cancelled, then drain. ``numbers``: file of ``/metrics`` counters.

    ``shares_socket``: other processes accept from it too, and serve its queue when this one ends.
    """
    descriptors.allow_many()  # a WebSocket takes four descriptors
    async with AsyncExitStack() as stack:
        pool = create_pool(database_url, pool_size=14, application_name="codehub-proxy")
        stack.push_async_callback(pool.dispose)
        sessions, reading = session_factory(pool), reading_session_factory(pool)
        async with sessions() as session, session.begin():
            installation = await get_or_create(session)
            has_homes = await queries.any_home(session)
        redis = redis_link(settings, redis_url, client_name=f"{settings.coordinator.node_id}-proxy")
        stack.push_async_callback(redis.close)
        live = LiveFeed(redis)
        live.start()
        stack.push_async_callback(live.close)
        runtime = await build_runtime(settings, installation, has_homes=has_homes)
        stack.push_async_callback(runtime.close)
        secret = installation.secret
        sign_in, identities = SignedSignIn(secret, redis), Identities(sessions, reading=reading)
        directory = ProxyDirectory(
            waking=WakeService(sessions, identities=identities, limits=running_limits(settings)),
            reading=reading,
            identities=identities,
            addresses=runtime,
            uses_base_path=runtime.uses_base_path,
            without_tab_script=settings.http.tab_script_except,
            live=live,
            hints=Hints(redis, prefix=settings.redis.channel_wake_prefix),
            sign_in=sign_in,
            share_policy=share_policy(settings),
            link_secret=secret,
            tunnels=_port_tunnels(settings, api=api, secret=secret),
        )
        stack.push_async_callback(directory.close)
        activity = _activity(stack, redis, sessions, directory)
        interfaces = Interfaces(directory=directory, sign_in=sign_in, activity=activity)
        server = ProxyServer(interfaces, _proxy_settings(settings, api=api, secret=secret))
        await _serve(server, sock, numbers=numbers, shares_socket=shares_socket)


def _activity(
    stack: AsyncExitStack, redis: RedisLink, sessions: Sessions, directory: ProxyDirectory
) -> ProxyActivity:
    news = ActivityPublisher(LivePublisher(redis).publish_activity)
    stack.push_async_callback(news.close)
    return ProxyActivity(ActivityLog(redis), sessions, directory.ttls, news)


def _port_tunnels(settings: Settings, *, api: SocketAddress, secret: bytes) -> PortTunnels | None:
    """None: local workspaces are processes of this machine, whose loopback the proxy reaches itself."""
    return None if settings.runtime.kind is RuntimeKind.LOCAL else PortTunnels(api, secret)


def _proxy_settings(settings: Settings, *, api: SocketAddress, secret: bytes) -> ProxySettings:
    return ProxySettings(
        api=api,
        internal_secret=secret,
        public_url=settings.base_url,
        base_domain=settings.http.base_domain,
        trusted_proxies=AddressSet(settings.http.trusted_proxies),
        tab_script=settings.http.tab_script,
    )


async def _serve(
    server: ProxyServer, sock: socket.socket, *, numbers: Path | None, shares_socket: bool
) -> None:
    """Serve until cancelled, then drain."""
    await server.start(sock=sock)
    memory.settle()
    log.info("proxy serves")
    try:
        if numbers is not None:
            await keep_writing(server.metrics, numbers)
        await asyncio.Event().wait()
    finally:
        if not shares_socket:
            await stop_arrivals(sock)
        await server.stop(DRAIN_SECONDS)


def upstream_of(settings: Settings) -> SocketAddress:
    """The API's address from CODEHUB_API_UPSTREAM."""
    upstream = settings.http.api_upstream
    if upstream is None:
        raise SettingsError("CODEHUB_ROLES=proxy needs CODEHUB_API_UPSTREAM: where the API is.")
    if upstream.startswith("unix://"):
        return UnixAddress(upstream.removeprefix("unix://"))
    host, _, port = upstream.partition("://")[2].rpartition(":")
    if not host:
        raise SettingsError(f"CODEHUB_API_UPSTREAM={upstream} needs a port, as http://host:port.")
    return TcpAddress(host.strip("[]"), int(port))


def main() -> None:
    """Run ``python -m codehub.server.proxy.process FD NUMBERS``.

    Started by ``supervisor``, with the settings in its environment.
    """
    settings = load_settings()
    json = settings.log.format is LogFormat.JSON if settings.log.format else not sys.stderr.isatty()
    logs.configure(json=json, level=settings.log.level, node_id=settings.coordinator.node_id)
    assert settings.database.url is not None
    assert settings.redis.url is not None
    listening = socket.socket(fileno=int(sys.argv[1]))
    work = run_proxy(
        settings,
        sock=listening,
        database_url=settings.database.url.get_secret_value(),
        redis_url=settings.redis.url.get_secret_value(),
        api=upstream_of(settings),
        numbers=Path(sys.argv[2]),
        shares_socket=True,
    )

    async def run_until_signal() -> None:
        asyncio.get_running_loop().set_exception_handler(on_loop_error)
        task = asyncio.ensure_future(work)
        for each in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(each, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            log.info("proxy ended")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run_until_signal())


if __name__ == "__main__":
    main()
