"""What one coordinator's loop waits for: a hint, a signal from inside the process, or the interval.

However many hints arrive, they make one tick: they are gathered while nobody waits. Nothing here is
needed for correctness; with every hint lost the interval alone carries the loop.
"""

import asyncio
from collections.abc import Callable, Collection
from contextlib import suppress
from uuid import UUID

from codehub.signals.hints import EVERYTHING, Hint, HintChannel, HintSource, HintTarget

PUMP_SECONDS = 3600.0


class WakeSignal:
    """Merges a hint source with signals from inside the process."""

    def __init__(self, source: HintSource | None = None) -> None:
        self._source = source
        self._pump: asyncio.Task[None] | None = None
        self._event = asyncio.Event()
        self._pending: Hint | None = None

    def start(self) -> None:
        if self._source is not None and self._pump is None:
            self._pump = asyncio.create_task(self._forward(self._source), name="wakeups")

    def set(self, ids: Collection[UUID] = ()) -> None:
        """Wake the loop; ``ids`` narrows the look, none means everything."""
        hint = Hint(frozenset(ids)) if ids else EVERYTHING
        if self._pending is None:
            self._pending = hint
        elif hint.everything or self._pending.everything:
            self._pending = EVERYTHING
        else:
            self._pending = Hint(self._pending.ids | hint.ids)
        self._event.set()

    def take(self) -> Hint | None:
        """What was hinted since the last look; None: nothing."""
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
    """Wakes another coordinator by the shortest way: its signal if it leads in this process, Redis if not.

    Redis hears of it either way, after the signal and without anybody waiting for it: an operator may listen.
    """

    def __init__(self, board: HintChannel) -> None:
        self._board = board
        self._local: dict[HintTarget, tuple[WakeSignal, Callable[[], bool]]] = {}

    def register(self, target: HintTarget, wake_signal: WakeSignal, *, is_leader: Callable[[], bool]) -> None:
        self._local[target] = (wake_signal, is_leader)

    async def send(self, target: HintTarget, ids: Collection[UUID] = ()) -> None:
        wake_signal, is_leader = self._local.get(target, (None, None))
        if wake_signal is not None and is_leader is not None and is_leader():
            wake_signal.set(ids)
            self._board.announce(target, ids)
        else:
            await self._board.publish(target, ids)
