"""Connect to Redis: one pool for commands, one connection per subscription.

Every call has a timeout, because no caller may wait for Redis longer. A failure of any kind becomes
``RedisUnavailable``: Redis holds nothing here that CodeHub depends on, so callers need to know *that* it is
away and never *why*.
"""

from asyncio import timeout
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as RedisTimeoutError

from codehub.domain.errors import CodeHubError
from codehub.kit.tasks import keep_cancellation
from codehub.signals.outage import Outage


class RedisUnavailable(CodeHubError):
    """Redis did not answer, or not in time."""

    code = "redis_unavailable"


class RedisLink:
    """One process's connections to one Redis.

    ``url``: ``redis://``, ``rediss://`` or ``unix://``.
    """

    def __init__(
        self,
        url: str,
        *,
        client_name: str = "codehub",
        timeout_seconds: float = 1.0,
        max_connections: int = 32,
        channel_prefix: str = "",
    ) -> None:
        """Set up the pool; nothing is connected yet.

        ``channel_prefix`` is put before the name of every channel: installations may share a Redis.
        """
        self.timeout_seconds = timeout_seconds
        self._channel_prefix = channel_prefix
        self._url = url
        self._client_name = client_name
        # One immediate retry, for a pooled connection that Redis closed meanwhile. Never after a timeout: the
        # command may have been executed, and the caller's timeout has passed as well.
        self.client: Redis = Redis.from_pool(
            BlockingConnectionPool.from_url(
                url,
                max_connections=max_connections,
                timeout=timeout_seconds,
                retry=Retry(NoBackoff(), 1, supported_errors=(RedisConnectionError,)),
                health_check_interval=15,
                **self._connection_options(client_name),
            )
        )

    def channel(self, name: str) -> str:
        return f"{self._channel_prefix}{name}"

    def subscription_client(self) -> Redis:
        """Return a client that raises on a lost connection instead of reconnecting.

        redis-py re-subscribes silently, and what was published in between is silently missing. The owner of a
        subscription must notice the gap, so retries are off and it subscribes again itself.
        """
        return Redis.from_url(
            self._url,
            retry=Retry(NoBackoff(), 0, supported_errors=()),
            **self._connection_options(f"{self._client_name}-subscriber"),
        )

    @asynccontextmanager
    async def bounded(self, outage: Outage, *, timeout_seconds: float | None = None) -> AsyncIterator[Redis]:
        """Yield the client for calls with a timeout. Raises ``RedisUnavailable``."""
        if outage.holding:
            raise RedisUnavailable(f"{outage.use}: Redis did not answer a moment ago")
        try:
            with keep_cancellation():
                async with timeout(timeout_seconds or self.timeout_seconds):
                    yield self.client
        except (RedisError, OSError, TimeoutError) as error:
            # redis-py's TimeoutError is not Python's; an outage treats both alike.
            outage.failed(TimeoutError(str(error)) if isinstance(error, RedisTimeoutError) else error)
            raise RedisUnavailable(f"{outage.use}: {error}") from error
        outage.recovered()

    async def ping(self) -> None:
        """Ping Redis, for readiness and ``doctor``. Raises ``RedisUnavailable``."""
        async with self.bounded(Outage("ping")) as client:
            await client.ping()

    async def close(self) -> None:
        await self.client.aclose()
        await self.client.connection_pool.disconnect()

    def _connection_options(self, client_name: str) -> dict[str, Any]:
        return {
            "client_name": client_name,
            "socket_timeout": self.timeout_seconds,
            "socket_connect_timeout": self.timeout_seconds,
            "protocol": 2,  # nothing here needs RESP3, and every server and proxy speaks RESP2
            "driver_info": None,
        }
