"""An event loop whose time is virtual, and processes on it that can be killed and frozen.

When nothing is ready, time jumps to the next timer: minutes of ticking cost milliseconds, and two runs with
the same seed take exactly the same steps.

Every replica is a ``Process``: whatever its tasks schedule carries it in its context. Killing one is
kill -9: nothing of it runs again, no ``finally`` and no ``except`` either. Freezing one is SIGSTOP: what it
would have run meanwhile is kept and runs late, all at once, when it is thawed.
"""

import asyncio
import gc
import heapq
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import Context, ContextVar
from typing import Any, TypeVar

T = TypeVar("T")


class Process:
    """One life of a replica. ``boot_offset`` is how far its own clocks have jumped."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.halted = False
        self.dead = False
        self.frozen_at: float | None = None
        self.last_thaw = 0.0
        self.boot_offset = 0.0
        self.parked: list[asyncio.Handle] = []

    def __repr__(self) -> str:
        return self.name


CURRENT: ContextVar[Process | None] = ContextVar("simulated process", default=None)


class NothingLeft(RuntimeError):
    """Nothing is ready and no timer is set: everybody waits for somebody."""


class VirtualLoop(asyncio.BaseEventLoop):
    _ready: Any  # what BaseEventLoop keeps for its subclasses; typeshed does not know of it

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._tasks: list[asyncio.Task[Any]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timers_set = 0
        self.steps = 0
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]

    def time(self) -> float:
        return self._now

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Timers of the same instant go off in the order in which they were set."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_set += 1
        heapq.heappush(self._timers, (when, self._timers_set, timer))
        return timer

    def in_process(self, process: Process, start: Callable[[], T]) -> T:
        """Call ``start`` as ``process``: what it schedules belongs to the process."""
        context = Context()
        context.run(CURRENT.set, process)
        return context.run(start)

    def kill(self, process: Process) -> None:
        process.halted = process.dead = True

    def freeze(self, process: Process) -> None:
        process.halted = True
        process.frozen_at = self._now

    def thaw(self, process: Process) -> None:
        if process.dead or not process.halted:
            return
        process.halted, process.frozen_at, process.last_thaw = False, None, self._now
        parked, process.parked = process.parked, []
        self._ready.extend(parked)

    def bury(self, processes: list[Process]) -> None:
        """The run is over: let even the dead end properly, so that nothing is destroyed while pending."""
        for process in processes:
            process.dead = False
            self.thaw(process)
        pending = [task for task in self._tasks if not task.done()]
        for task in pending:
            task.cancel()
        if pending:
            self.run_until_complete(asyncio.wait(pending, timeout=100))
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.exception()  # seen
        self._tasks.clear()
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], context: Context | None = None
    ) -> "asyncio.Task[Any]":
        # Kept: a task of a dead process must not be collected, or its ``finally`` would run after all.
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context)
        self._tasks.append(task)
        return task

    def _run_once(self) -> None:
        ready, timers = self._ready, self._timers
        while timers and timers[0][2]._cancelled:
            heapq.heappop(timers)
        if not ready:
            if not timers:
                raise NothingLeft("nothing is ready and no timer is set")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            ready.append(heapq.heappop(timers)[2])
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            process = handle._context.get(CURRENT)
            if process is not None and process.halted:
                process.parked.append(handle)
                continue
            self.steps += 1
            handle._run()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when their time has come."""

    def _write_to_self(self) -> None:
        """There is no other thread to be woken by."""


def run_virtually(main: Callable[[VirtualLoop], Awaitable[T]], processes: list[Process]) -> T:
    """Run ``main`` to its end on a loop of its own, and clear up after it."""
    loop = VirtualLoop()
    asyncio.set_event_loop(loop)
    collecting = gc.isenabled()
    gc.disable()  # a run makes little garbage, and walking it again and again costs a fifth of its time

    async def wrapped() -> T:
        return await main(loop)

    try:
        return loop.run_until_complete(wrapped())
    finally:
        try:
            loop.bury(processes)
        finally:
            asyncio.set_event_loop(None)
            if collecting:
                gc.enable()
