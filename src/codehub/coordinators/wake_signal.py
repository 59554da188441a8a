"""Wake a coordinator's loop: by a hint, a signal in the process, or the interval.

Hints that arrive during a tick are merged into one for the next. Nothing here is needed for correctness: with
every hint lost, the interval alone drives the loop.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from uuid import UUID

from codehub.signals.hints import EVERYTHING, Hint, HintChannel, HintSource, HintTarget

PUMP_SECONDS = 3600.0


class WakeSignal:
    """Merges the hints of a source with signals from inside the process."""

    def __init__(self, source: HintSource | None = None) -> None:
        self._source = source
        self._pump: asyncio.Task[None] | None = None
        self._event = asyncio.Event()
        self._pending: Hint | None = None

    def start(self) -> None:
        if self._source is not None and self._pump is None:
            self._pump = asyncio.create_task(self._forward(self._source), name="wakeups")

    def set(self, ids: Collection[UUID] = ()) -> None:
        """Wake the loop for ``ids``; none means everything."""
        hint = Hint(frozenset(ids)) if ids else EVERYTHING
        if self._pending is None:
            self._pending = hint
        elif hint.everything or self._pending.everything:
            self._pending = EVERYTHING
        else:
            self._pending = Hint(self._pending.ids | hint.ids)
        self._event.set()

    def take(self) -> Hint | None:
        """Take the merged hints since the last call; None: there were none."""
        hint, self._pending = self._pending, None
        self._event.clear()
        return hint

    async def wait(self, timeout: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._event.wait()

    async def close(self) -> None:
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError):
                await self._pump
            self._pump = None
        if self._source is not None:
            await self._source.close()

    async def _forward(self, source: HintSource) -> None:
        while True:
            hint = await source.wait(PUMP_SECONDS)
            if hint is not None:
                self.set(hint.ids)


class CoordinatorHints:
    """Sends hints to coordinators, in the process or through Redis.

    A target that leads in this process is woken directly, and the hint is published to Redis without waiting (an
    operator may listen there). Any other target is hinted through Redis alone.
    """

    def __init__(self, channel: HintChannel) -> None:
        self._channel = channel
        self._local: dict[HintTarget, tuple[WakeSignal, Callable[[], bool]]] = {}

    def register(self, target: HintTarget, wake_signal: WakeSignal, *, is_leader: Callable[[], bool]) -> None:
        self._local[target] = (wake_signal, is_leader)

    async def send(self, target: HintTarget, ids: Collection[UUID] = ()) -> None:
        wake_signal, is_leader = self._local.get(target, (None, None))
        if wake_signal is not None and is_leader is not None and is_leader():
            wake_signal.set(ids)
            self._channel.announce(target, ids)
        else:
            await self._channel.publish(target, ids)
