"""A Redis subscription that reconnects by itself and reports each reconnect.

Hints and live events use it. PUB/SUB does not keep messages: what was published while the connection was down
is lost. So the invariant kept here is: **between any two messages passed to the owner, either nothing was
missed or ``on_subscribed`` was called.** It is called only after Redis has confirmed every channel, so
everything published after it arrives.

A dead peer (no FIN, no RST) is detected by its silence: after ``quiet_seconds`` without traffic a PING is
sent, and as much silence again ends the connection.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from codehub.kit.tasks import keep_cancellation
from codehub.signals.connection import RedisLink
from codehub.signals.outage import Outage

log = structlog.get_logger(__name__)

FIRST_DELAY_SECONDS = 0.05
LONGEST_DELAY_SECONDS = 0.5
"""A browser shows the database's state within two seconds of Redis being back, this delay included. A refused
connection twice a second costs nothing."""


class Subscription:
    """Runs one task. The callbacks are synchronous and must return at once."""

    def __init__(
        self,
        link: RedisLink,
        *,
        use: str,
        on_message: Callable[[str, bytes], None],
        on_subscribed: Callable[[], None],
        channels: Sequence[str],
        quiet_seconds: float = 5.0,
    ) -> None:
        self._link = link
        self._on_message = on_message
        self._on_subscribed = on_subscribed
        self._channels = channels
        self._quiet_seconds = quiet_seconds
        self._outage = Outage(use)
        self._delay = FIRST_DELAY_SECONDS
        self._task: asyncio.Task[None] | None = None
        self.disconnected = asyncio.Event()
        self.disconnected.set()

    @property
    def connected(self) -> bool:
        return not self.disconnected.is_set()

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"redis subscription: {self._outage.use}")

    async def close(self) -> None:
        task, self._task = self._task, None
        while task is not None and not task.done():
            # Repeated: redis-py swallows a cancellation that arrives while it connects.
            task.cancel()
            await asyncio.wait({task}, timeout=0.1)

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (RedisError, OSError, TimeoutError) as error:
                self._outage.failed(error)
            except Exception as error:
                # A defect must not end the subscription for good: the loss would go unnoticed.
                log.exception("subscription failed", use=self._outage.use)
                self._outage.failed(error)
            # Jitter: all replicas lose Redis in the same instant and must not reconnect in the same one.
            await asyncio.sleep(self._delay * random.uniform(0.5, 1.0))
            self._delay = min(self._delay * 2, LONGEST_DELAY_SECONDS)

    async def _listen(self) -> None:
        client = self._link.subscription_client()
        pubsub = client.pubsub()
        try:
            with keep_cancellation():
                async with asyncio.timeout(2 * self._link.timeout_seconds):
                    await self._subscribe(pubsub)
            self._delay = FIRST_DELAY_SECONDS
            self._outage.recovered()
            self.disconnected.clear()
            self._on_subscribed()
            await self._read(pubsub)
        finally:
            self.disconnected.set()
            await pubsub.aclose()  # type: ignore[no-untyped-call]
            await client.aclose()

    async def _subscribe(self, pubsub: PubSub) -> None:
        await pubsub.subscribe(*self._channels)
        unconfirmed = len(self._channels)
        while unconfirmed:
            message = await _next_message(pubsub, self._link.timeout_seconds)
            if message is not None and message["type"] == "subscribe":
                unconfirmed -= 1

    async def _read(self, pubsub: PubSub) -> None:
        pinged = False
        while True:
            message = await _next_message(pubsub, self._quiet_seconds)
            if message is not None:
                pinged = False
                if message["type"] == "message":
                    self._on_message(message["channel"].decode("utf-8", "replace"), message["data"])
            elif pinged:
                raise TimeoutError("no answer to PING")
            else:
                with keep_cancellation():
                    async with asyncio.timeout(self._link.timeout_seconds):
                        await pubsub.ping()
                pinged = True


async def _next_message(pubsub: PubSub, timeout_seconds: float) -> dict[str, Any] | None:
    message: dict[str, Any] | None = await pubsub.get_message(timeout=timeout_seconds)
    return message
