"""Hints: "look now". They shorten a coordinator's wait and decide nothing (contract 2).

Published by the event listener, the Reconciler, the Observer, the TTL manager, the proxy and runtime
events; waited for by the coordinators' loop. A hint may name workspaces, and that is all of a payload that
is believed. Many hints between two waits make one. Losing every hint makes a coordinator slow, never
wrong: ``wait`` then simply times out.

After each (re-)subscription the source fires one hint of its own that names nothing, because hints
published while it was not listening are lost.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from prometheus_client import Counter

from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.outage import Outage
from codehub.signals.subscription import Subscription

MAX_NAMED = 1000
"""Beyond this many, looking at everything is cheaper than naming each."""

MAX_PAYLOAD_BYTES = 64 * 1024

IGNORED = Counter("codehub_hints_ignored_total", "Hints whose payload made no sense")


class HintTarget(StrEnum):
    """Whom a hint wakes; the last part of the channel's name."""

    OBSERVER = "ob"
    RECONCILER = "wc"
    TTL_MANAGER = "ttl"
    ARCHIVE_GC = "gc"


@dataclass(frozen=True)
class Hint:
    """Look at ``ids``; at everything if it names none."""

    ids: frozenset[UUID] = frozenset()

    @property
    def everything(self) -> bool:
        return not self.ids


EVERYTHING = Hint()


class HintSource(Protocol):
    """What one coordinator waits on."""

    async def wait(self, timeout: float) -> Hint | None:
        """All hints since the last call, as one; None when ``timeout`` seconds brought none.

        A cancelled wait loses nothing: the next one returns what it would have returned.
        """

    async def close(self) -> None: ...


class HintBoard(Protocol):
    """Where hints are published and subscribed to. ``Hints`` over Redis, ``LocalHints`` in one process."""

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        """Fire and forget. False: it certainly did not go out."""

    def subscribe(self, target: HintTarget) -> HintSource: ...


class Hints:
    """Hints over Redis PUB/SUB, channel ``{prefix}:{target}``.

    All sources of a process share one subscription to every channel: a connection that has to prove itself
    alive every few seconds is worth keeping only once.
    """

    def __init__(self, link: RedisLink, *, prefix: str = "codehub:wake") -> None:
        self._link = link
        self._prefix = prefix
        self._outage = Outage("hints")
        self._sources: dict[str, set[_RedisHintSource]] = {self._channel(each): set() for each in HintTarget}
        self._subscription: Subscription | None = None

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        try:
            async with self._link.bounded(self._outage) as client:
                await client.publish(self._channel(target), encode_hint(ids))
        except RedisUnavailable:
            return False
        return True

    def subscribe(self, target: HintTarget) -> HintSource:
        """Needs a running loop; the source reconnects by itself until it is closed."""
        source = _RedisHintSource(self._leave)
        self._sources[self._channel(target)].add(source)
        if self._subscription is None:
            self._subscription = Subscription(
                self._link,
                use=f"subscription to {self._prefix}:*",
                channels=list(self._sources),
                on_message=self._receive,
                on_subscribed=self._wake_all,
            )
            self._subscription.start()
        elif self._subscription.connected:
            source.add(EVERYTHING)  # as after each subscription; if it is being made, this comes with it
        return source

    async def _leave(self, source: "_RedisHintSource") -> None:
        for sources in self._sources.values():
            sources.discard(source)
        if self._subscription is not None and not any(self._sources.values()):
            subscription, self._subscription = self._subscription, None
            await subscription.close()

    def _receive(self, channel: str, payload: bytes) -> None:
        hint = parse_hint(payload)
        if hint is None:
            IGNORED.inc()
            return
        for source in self._sources.get(channel, ()):
            source.add(hint)

    def _wake_all(self) -> None:
        for sources in self._sources.values():
            for source in sources:
                source.add(EVERYTHING)

    def _channel(self, target: HintTarget) -> str:
        return f"{self._prefix}:{target.value}"


class LocalHints:
    """The same within one process, for tests and simulation. No I/O, no clock of its own."""

    def __init__(self) -> None:
        self._sources: dict[HintTarget, set[_LocalHintSource]] = {target: set() for target in HintTarget}

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        hint = Hint(frozenset(ids)) if len(ids) <= MAX_NAMED else EVERYTHING
        for source in self._sources[target]:
            source.add(hint)
        return True

    def subscribe(self, target: HintTarget) -> HintSource:
        source = _LocalHintSource(self._sources[target])
        self._sources[target].add(source)
        source.add(EVERYTHING)
        return source


def encode_hint(ids: Collection[UUID]) -> bytes:
    if not ids or len(ids) > MAX_NAMED:
        return b"{}"
    return json.dumps({"ids": [str(each) for each in ids]}).encode()


def parse_hint(payload: bytes) -> Hint | None:
    """None for anything that is not a hint. Unknown fields are ignored, so that they may be added."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        return None
    try:
        content = json.loads(payload)
        named = content.get("ids", [])
        if not isinstance(named, list):
            return None
        ids = frozenset(UUID(each) for each in named)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    return Hint(ids) if len(ids) <= MAX_NAMED else EVERYTHING


class _Coalescer:
    """Everything hinted since the last wait, as one hint."""

    def __init__(self) -> None:
        self._pending: Hint | None = None
        self._arrived = asyncio.Event()

    def add(self, hint: Hint) -> None:
        pending = self._pending
        if pending is None:
            self._pending = hint
        elif not pending.everything:
            union = pending.ids | hint.ids
            self._pending = EVERYTHING if hint.everything or len(union) > MAX_NAMED else Hint(union)
        self._arrived.set()

    async def wait(self, timeout: float) -> Hint | None:
        if self._pending is None:
            try:
                async with asyncio.timeout(timeout):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        # No await between here and the return: a cancellation cannot fall in and lose the hint.
        hint, self._pending = self._pending, None
        self._arrived.clear()
        return hint


class _LocalHintSource(_Coalescer):
    def __init__(self, registry: set["_LocalHintSource"]) -> None:
        super().__init__()
        self._registry = registry

    async def close(self) -> None:
        self._registry.discard(self)


class _RedisHintSource(_Coalescer):
    def __init__(self, leave: "Callable[[_RedisHintSource], Awaitable[None]]") -> None:
        super().__init__()
        self._leave = leave

    async def close(self) -> None:
        await self._leave(self)
