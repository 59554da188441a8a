"""Say that a pod waits for a node, in the scheduler's words, for as long as it does.

The words go to whoever started the pod, after a moment, whenever they change, and every few seconds in between: each
time the caller's timeout begins anew, and somebody who opens a page learns it soon.
"""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.base import OnWait, WaitCallback
from codehub.runtimes.kubernetes.inventory import Pod
from codehub.runtimes.kubernetes.reasons import NO_SCHEDULER, scheduler_words

FIRST_SECONDS = 1.0
"""A pod that gets its node within this time is not mentioned: schedulers first say that a claim is not bound yet."""
REPEAT_SECONDS = 3.0
_MOST_CHARACTERS = 500


class NodeWait:
    """Reports one pod's wait, between entering and leaving the context."""

    def __init__(self, on_wait: OnWait) -> None:
        self._on_wait = on_wait
        self._words: str | None = None
        self._told = False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def see(self, pod: Pod) -> None:
        """Take in the pod as it is now."""
        words = None if pod.node is not None else (scheduler_words(pod) or NO_SCHEDULER)[:_MOST_CHARACTERS]
        if words != self._words:
            self._words = words
            self._news.set()

    async def __aenter__(self) -> Self:
        if self._on_wait is not None:
            self._task = asyncio.create_task(self._report(self._on_wait), name="node-wait")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            await cancel_and_wait([self._task])
        if error is None and self._told and self._on_wait is not None:
            await self._on_wait(None)

    async def _report(self, on_wait: WaitCallback) -> None:
        await asyncio.sleep(FIRST_SECONDS)
        while True:
            self._news.clear()
            if self._words is not None:
                self._told = True
                await on_wait(self._words)
            elif self._told:
                self._told = False
                await on_wait(None)
            with suppress(TimeoutError):
                async with asyncio.timeout(REPEAT_SECONDS):
                    await self._news.wait()
