"""Open connections to PostgreSQL: the API's pool, and the coordinators' own.

``DATABASE_URL`` is a libpq URL (``postgres://``, ``postgresql://``, a socket directory in ``?host=``,
``sslmode``…). asyncpg parses these itself, so the URL is passed on unchanged but for parameters that only
libpq knows.
"""

import socket
from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
from asyncpg.connect_utils import SessionAttribute
from sqlalchemy import NullPool
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from codehub.store.db.pool import Pool
from codehub.store.db.session import Connection, Sessions
from codehub.store.errors import DatabaseUrlInvalid

SCHEMES = frozenset({"postgres", "postgresql", "postgresql+asyncpg"})

# Known to libpq alone: asyncpg would send them to the server as settings, which refuses the connection. Each is
# either without effect here or set by us.
LIBPQ_ONLY = frozenset(
    {
        "channel_binding",
        "connect_timeout",
        "fallback_application_name",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "load_balance_hosts",
        "require_auth",
        "requiressl",
        "sslcompression",
        "sslsni",
        "tcp_user_timeout",
    }
)

# Both ends detect a dead peer within eleven seconds (5 s idle, then 3 probes 2 s apart), or 8 s if data is
# unacknowledged; the defaults take hours.
KEEPALIVE_IDLE_SECONDS = 5
KEEPALIVE_INTERVAL_SECONDS = 2
KEEPALIVE_COUNT = 3
USER_TIMEOUT_MILLISECONDS = 8_000

# The tables fit into memory, wherever the database is. With the default, 4.0, which assumes a disk seek per page,
# PostgreSQL scans all of ten thousand rows to find a hundred.
PLANNER_SETTINGS: Mapping[str, str] = {"random_page_cost": "1.1"}

IDLE_SESSION_SECONDS = 10
STATEMENT_SECONDS = 10

COORDINATOR_SETTINGS: Mapping[str, str] = {
    **PLANNER_SETTINGS,
    # A leader that was frozen (SIGSTOP, swapped out) keeps its lock, because its kernel still answers keepalives:
    # the server must end such a session by itself, in a transaction or not. A working leader sends statements
    # more often than that (``coordinators/leadership.session_idle_seconds``).
    "idle_session_timeout": f"{IDLE_SESSION_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{IDLE_SESSION_SECONDS}s",
    "tcp_keepalives_idle": str(KEEPALIVE_IDLE_SECONDS),
    "tcp_keepalives_interval": str(KEEPALIVE_INTERVAL_SECONDS),
    "tcp_keepalives_count": str(KEEPALIVE_COUNT),
    "tcp_user_timeout": str(USER_TIMEOUT_MILLISECONDS),
}


def create_pool(
    url: str,
    *,
    pool_size: int = 20,
    pool_timeout_seconds: float = 10.0,
    application_name: str = "codehub-api",
    server_settings: Mapping[str, str] | None = None,
) -> Pool:
    """Create a process's connection pool for the short transactions of requests.

    Every statement has a timeout of 10 s: a request that waits for a lock for ever would keep its connection.
    The server enforces it, and so does the client: a server that is frozen, or behind a link that drops all
    packets, enforces nothing.
    """
    settings = {
        "application_name": application_name,
        "statement_timeout": f"{STATEMENT_SECONDS}s",
        "lock_timeout": f"{STATEMENT_SECONDS}s",
        "idle_in_transaction_session_timeout": "30s",
        **PLANNER_SETTINGS,
        **(server_settings or {}),
    }
    connector = Connector(url, settings=settings, statement_seconds=STATEMENT_SECONDS)
    return Pool(connector.connect, size=pool_size, wait_seconds=pool_timeout_seconds)


def session_factory(pool: Pool) -> Sessions:
    """Return sessions with a transaction; they never commit by themselves."""
    return Sessions(pool)


def reading_session_factory(pool: Pool) -> Sessions:
    """Return autocommit sessions for single reads: two round trips fewer.

    Each statement sees its own snapshot. Never to be used for writes that belong together.
    """
    return Sessions(pool, autocommit=True)


def one_connection_engine(
    url: str, *, application_name: str, settings: Mapping[str, str] | None = None
) -> AsyncEngine:
    """Create an engine without a pool: each ``connect()`` is a new server session.

    Closing it ends the session on the server too.
    """
    connector = Connector(url, settings={"application_name": application_name, **(settings or {})})
    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=lambda *_, **__: connector.connect(),
        poolclass=NullPool,
    )


def coordinator_connector(
    url: str,
    *,
    application_name: str = "codehub-coordinator",
    settings: Mapping[str, str] | None = None,
) -> "Connector":
    """Create the connector of a coordinator: one connection for lock and transactions.

    Never pooled: a pooled connection could come back as another session without the lock. Only a server that
    accepts writes will do, for a hot standby grants advisory locks too.
    """
    return Connector(
        url,
        settings={"application_name": application_name, **COORDINATOR_SETTINGS, **(settings or {})},
        read_write=True,
    )


def asyncpg_dsn(url: str) -> str:
    """Return the URL as asyncpg accepts it. Raises ``DatabaseUrlInvalid``.

    The error never contains the password.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise DatabaseUrlInvalid(f"DATABASE_URL cannot be read: {error}") from error
    if parts.scheme not in SCHEMES:
        raise DatabaseUrlInvalid(
            f"DATABASE_URL must begin with postgresql:// (or postgres://), not {parts.scheme or 'nothing'!r}"
        )
    query = [(key, value) for key, value in parse_qsl(parts.query) if key not in LIBPQ_ONLY]
    return urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(query), ""))


class Connector:
    """Opens connections with the same settings and timeouts."""

    def __init__(
        self,
        url: str,
        *,
        settings: Mapping[str, str],
        read_write: bool = False,
        statement_seconds: float | None = None,
    ) -> None:
        """Set options. ``statement_seconds``: client-side timeout; None: set per call."""
        self._dsn = asyncpg_dsn(url)
        self._settings = dict(settings)
        self._connect_seconds = _connect_timeout(url)
        self._statement_seconds = statement_seconds
        self._kind = SessionAttribute.read_write if read_write else None

    async def connect(self) -> Connection:
        connection: Connection = await asyncpg.connect(
            self._dsn,
            server_settings=self._settings,
            timeout=self._connect_seconds,
            command_timeout=self._statement_seconds,
            target_session_attrs=self._kind,
        )
        _keep_alive(connection)
        return connection


def _keep_alive(connection: Connection) -> None:
    """Enable TCP keepalive on our end too. asyncpg exposes its socket no other way."""
    transport = getattr(connection, "_transport", None)
    sock = transport.get_extra_info("socket") if transport is not None else None
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_SECONDS),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_SECONDS),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
        ("TCP_USER_TIMEOUT", USER_TIMEOUT_MILLISECONDS),
    ):
        option = getattr(socket, name, None)  # not every platform has each of them
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def _connect_timeout(url: str) -> float:
    value = dict(parse_qsl(urlsplit(url).query)).get("connect_timeout", "")
    return float(value) if value.isdigit() and int(value) > 0 else 10.0
