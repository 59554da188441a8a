"""Hints ("look now") shorten a coordinator's wait and decide nothing (ADR 0002).

Published by the event listener, the Reconciler, the Observer, the TTL manager, the proxy and runtime events;
waited for by the coordinators' loop. A hint may name workspaces; nothing else of the payload is used. **Any**
payload wakes, and one that cannot be read means everything. Hints between two waits are coalesced into one.
Losing every hint makes a coordinator slow, never wrong: ``wait`` then times out.

A coordinator that leads in the same process is woken without Redis. The hint is published all the same
(``announce``), for an operator who listens; it carries the id of its process, which ignores its own.

After each (re-)subscription the source adds one hint that names nothing, because hints published while it was
not subscribed are lost.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol
from uuid import UUID, uuid4

from prometheus_client import Counter

from codehub.signals.connection import RedisLink, RedisUnavailable
from codehub.signals.outage import Outage
from codehub.signals.subscription import Subscription

MAX_NAMED = 1000
"""Beyond this many, processing everything is cheaper than naming each."""

MAX_PAYLOAD_BYTES = 64 * 1024

MONITOR_CHANNEL = "monitor:trigger"
"""An older channel for hints to the Observer, with the id of a workspace."""

UNREADABLE = Counter("codehub_hints_unreadable_total", "Hints whose payload could not be read; they wake too")


class HintTarget(StrEnum):
    """The coordinator a hint wakes; the last part of the channel's name."""

    OBSERVER = "ob"
    RECONCILER = "wc"
    TTL_MANAGER = "ttl"
    ARCHIVE_GC = "gc"


@dataclass(frozen=True)
class Hint:
    """Process ``ids``; everything if empty."""

    ids: frozenset[UUID] = frozenset()

    @property
    def everything(self) -> bool:
        return not self.ids


EVERYTHING = Hint()


class HintSource(Protocol):
    """The hints one coordinator waits on."""

    async def wait(self, timeout: float) -> Hint | None:
        """Return all hints since the last call as one; None after ``timeout`` seconds.

        A cancelled wait loses nothing: the next one returns what it would have returned.
        """

    async def close(self) -> None: ...


class HintChannel(Protocol):
    """Publishes and subscribes to hints.

    ``Hints`` over Redis, ``LocalHints`` in one process.
    """

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        """Publish a hint, fire and forget. False: it was certainly not sent."""

    def announce(self, target: HintTarget, ids: Collection[UUID] = ()) -> None:
        """Publish a hint for other processes only. Returns at once."""

    def subscribe(self, target: HintTarget) -> HintSource: ...


class Hints:
    """Hints over Redis PUB/SUB, channel ``{prefix}:{target}``.

    All sources of a process share one subscription to every channel, because each subscription costs a
    connection that is pinged every few seconds.
    """

    def __init__(self, link: RedisLink, *, prefix: str = "codehub:wake") -> None:
        self._link = link
        self._prefix = prefix
        self._outage = Outage("hints")
        self._sources: dict[str, set[_RedisHintSource]] = {self._channel(each): set() for each in HintTarget}
        self._subscription: Subscription | None = None
        self._process = uuid4().hex
        self._to_announce: dict[HintTarget, Hint] = {}
        self._announcing: asyncio.Task[None] | None = None

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        return await self._send(target, encode_hint(ids))

    def announce(self, target: HintTarget, ids: Collection[UUID] = ()) -> None:
        self._to_announce[target] = _merged(self._to_announce.get(target), Hint(frozenset(ids)))
        if self._announcing is None or self._announcing.done():
            self._announcing = asyncio.create_task(self._announce_all(), name="announce hints")

    async def _announce_all(self) -> None:
        """Send announced hints. Those that arrive while one is being sent are merged."""
        while self._to_announce:
            target, hint = self._to_announce.popitem()
            await self._send(target, encode_hint(hint.ids, process=self._process))

    async def _send(self, target: HintTarget, payload: bytes) -> bool:
        try:
            async with self._link.bounded(self._outage) as client:
                await client.publish(self._channel(target), payload)
        except RedisUnavailable:
            return False
        return True

    def subscribe(self, target: HintTarget) -> HintSource:
        """Subscribe to the hints of ``target``; reconnects until closed.

        Needs a running loop.
        """
        source = _RedisHintSource(self._leave)
        self._sources[self._channel(target)].add(source)
        if self._subscription is None:
            self._subscription = Subscription(
                self._link,
                use=f"subscription to {self._prefix}:*",
                channels=[*self._sources, self._link.channel(MONITOR_CHANNEL)],
                on_message=self._receive,
                on_subscribed=self._wake_all,
            )
            self._subscription.start()
        elif self._subscription.connected:
            source.add(EVERYTHING)  # as after each subscription; while it connects, ``_wake_all`` adds it
        return source

    async def _leave(self, source: "_RedisHintSource") -> None:
        for sources in self._sources.values():
            sources.discard(source)
        if self._subscription is not None and not any(self._sources.values()):
            subscription, self._subscription = self._subscription, None
            await subscription.close()

    def _receive(self, channel: str, payload: bytes) -> None:
        content = _load(payload)
        if isinstance(content, dict) and content.get("process") == self._process:
            return  # announced by this process: its coordinator has been woken
        if channel == self._link.channel(MONITOR_CHANNEL):
            channel = self._channel(HintTarget.OBSERVER)
        for source in self._sources.get(channel, ()):
            source.add(_read(content))

    def _wake_all(self) -> None:
        for sources in self._sources.values():
            for source in sources:
                source.add(EVERYTHING)

    def _channel(self, target: HintTarget) -> str:
        return self._link.channel(f"{self._prefix}:{target.value}")


class LocalHints:
    """Hints within one process, for tests and simulation. No I/O, no clock."""

    def __init__(self) -> None:
        self._sources: dict[HintTarget, set[_LocalHintSource]] = {target: set() for target in HintTarget}

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        hint = Hint(frozenset(ids)) if len(ids) <= MAX_NAMED else EVERYTHING
        for source in self._sources[target]:
            source.add(hint)
        return True

    def announce(self, target: HintTarget, ids: Collection[UUID] = ()) -> None:
        """Do nothing: there are no other processes."""

    def subscribe(self, target: HintTarget) -> HintSource:
        source = _LocalHintSource(self._sources[target])
        self._sources[target].add(source)
        source.add(EVERYTHING)
        return source


def encode_hint(ids: Collection[UUID], *, process: str | None = None) -> bytes:
    """Encode a hint as JSON; too many ids mean everything."""
    content: dict[str, Any] = {"process": process} if process is not None else {}
    if ids and len(ids) <= MAX_NAMED:
        content["ids"] = [str(each) for each in ids]
    return json.dumps(content).encode()


def _load(payload: bytes) -> Any:
    """Parse as JSON; anything else, such as a bare id, as text."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        return None
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        return payload.decode("utf-8", "replace").strip()


def _read(content: Any) -> Hint:
    if content in ("", {}, []):
        return EVERYTHING
    named = content.get("ids", []) if isinstance(content, dict) else content
    try:
        ids = frozenset(UUID(each) for each in ([named] if isinstance(named, str) else named))
    except (ValueError, TypeError, AttributeError):
        UNREADABLE.inc()
        return EVERYTHING
    return Hint(ids) if len(ids) <= MAX_NAMED else EVERYTHING


def _merged(one: Hint | None, other: Hint) -> Hint:
    if one is None:
        return other
    union = one.ids | other.ids
    return EVERYTHING if one.everything or other.everything or len(union) > MAX_NAMED else Hint(union)


class _Coalescer:
    """Merges hints added since the last wait into one."""

    def __init__(self) -> None:
        self._pending: Hint | None = None
        self._arrived = asyncio.Event()

    def add(self, hint: Hint) -> None:
        self._pending = _merged(self._pending, hint)
        self._arrived.set()

    async def wait(self, timeout: float) -> Hint | None:
        if self._pending is None:
            try:
                async with asyncio.timeout(timeout):
                    await self._arrived.wait()
            except TimeoutError:
                return None
        # No await between here and the return: a cancellation cannot lose the hint.
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
