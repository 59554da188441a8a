"""Hints: "look now". They shorten a coordinator's wait and decide nothing (contract 2).

Published by the event listener, the Reconciler, the Observer, the TTL manager, the proxy and runtime
events; waited for by the coordinators' loop. A hint may name workspaces, and that is all of a payload that
is believed: **any** payload wakes, and one that cannot be read asks for a look at everything. Many hints
between two waits make one. Losing every hint makes a coordinator slow, never wrong: ``wait`` then simply
times out.

A coordinator that leads in the same process is woken without Redis. The hint is published all the same
(``announce``), for an operator who listens; it carries the name of its process, which does not heed it again.

After each (re-)subscription the source fires one hint of its own that names nothing, because hints
published while it was not listening are lost.
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
"""Beyond this many, looking at everything is cheaper than naming each."""

MAX_PAYLOAD_BYTES = 64 * 1024

LOOK_CHANNEL = "monitor:trigger"
"""An older name for "look now", with the id of a workspace: it wakes the Observer."""

UNREADABLE = Counter("codehub_hints_unreadable_total", "Hints whose payload could not be read; they wake too")


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


class HintChannel(Protocol):
    """Where hints are published and subscribed to. ``Hints`` over Redis, ``LocalHints`` in one process."""

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        """Fire and forget. False: it certainly did not go out."""

    def announce(self, target: HintTarget, ids: Collection[UUID] = ()) -> None:
        """For whoever listens elsewhere; in this process it is known already. Waits for nothing."""

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
        """What comes while one is under way goes out together."""
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
        """Needs a running loop; the source reconnects by itself until it is closed."""
        source = _RedisHintSource(self._leave)
        self._sources[self._channel(target)].add(source)
        if self._subscription is None:
            self._subscription = Subscription(
                self._link,
                use=f"subscription to {self._prefix}:*",
                channels=[*self._sources, self._link.channel(LOOK_CHANNEL)],
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
        content = _load(payload)
        if isinstance(content, dict) and content.get("process") == self._process:
            return  # announced from here: whom it wakes has been woken
        if channel == self._link.channel(LOOK_CHANNEL):
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
    """The same within one process, for tests and simulation. No I/O, no clock of its own."""

    def __init__(self) -> None:
        self._sources: dict[HintTarget, set[_LocalHintSource]] = {target: set() for target in HintTarget}

    async def publish(self, target: HintTarget, ids: Collection[UUID] = ()) -> bool:
        hint = Hint(frozenset(ids)) if len(ids) <= MAX_NAMED else EVERYTHING
        for source in self._sources[target]:
            source.add(hint)
        return True

    def announce(self, target: HintTarget, ids: Collection[UUID] = ()) -> None:
        """There is nobody elsewhere."""

    def subscribe(self, target: HintTarget) -> HintSource:
        source = _LocalHintSource(self._sources[target])
        self._sources[target].add(source)
        source.add(EVERYTHING)
        return source


def encode_hint(ids: Collection[UUID], *, process: str | None = None) -> bytes:
    content: dict[str, Any] = {"process": process} if process is not None else {}
    if ids and len(ids) <= MAX_NAMED:
        content["ids"] = [str(each) for each in ids]
    return json.dumps(content).encode()


def _load(payload: bytes) -> Any:
    """As JSON; what is none, a bare id above all, as the text it is."""
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
    """Everything hinted since the last wait, as one hint."""

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
