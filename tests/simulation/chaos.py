"""What goes wrong, and when: every decision comes from the seed.

Each seed gets a **profile**: some kinds of faults are on, others off, each with a rate of its own. A run in
which everything fails all the time explores little, because nothing ever gets far enough to be hurt.

``gate`` is called at every await point of the environment outside a process (a statement, a commit, a call of the
runtime or of the archive store), before the effect and after it. There the process may be killed or
frozen, the awaiting task may be cancelled, the call may fail, or take its time.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.simulation.loop import CURRENT, Process

KINDS = (
    "crash",
    "freeze",
    "cancel",
    "restart",
    "session",
    "swap",
    "database",
    "engine",
    "store",
    "container",
    "unmount",
    "unreadable",
    "clock",
    "hints",
    "redis",
    "effect",
    "slow",
    "hang",
    "half",
    "rollback",
    "job",
)
"""Kinds of faults; ``Simulation`` gives each its meaning."""

NO_NODE, NO_NODE_SEEDS = "node", 0.25
"""A cluster without room, drawn apart from the others: they stay what they were for every seed."""

ACTIONS_CUT = "cut"
"""Actions are cancelled and their leader lives on: for hunts alone, every seed has it as half of ``cancel``."""


@dataclass
class Chaos:
    seed: int
    on: bool = True
    focus: Mapping[str, float] | None = None  # only these kinds, at these rates: for hunting one bug
    trace: Callable[[str], None] | None = None
    kill: Callable[[Process], None] = field(default=lambda _process: None)
    freeze: Callable[[Process, float], None] = field(default=lambda _process, _seconds: None)
    cancel: Callable[[Process, str], bool] = field(default=lambda _process, _what: False)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        count = self.random.choice((2, 4, 6, 9))
        self.kinds = frozenset(self.random.sample(KINDS, count))
        self.rates = {kind: self.random.choice((0.004, 0.01, 0.03)) for kind in KINDS}
        if random.Random(f"{NO_NODE} {self.seed}").random() < NO_NODE_SEEDS:
            self.kinds |= {NO_NODE}
        if self.focus:
            self.kinds = frozenset(self.focus)
            self.rates |= self.focus

    def has(self, kind: str) -> bool:
        return self.on and kind in self.kinds

    def strikes(self, kind: str) -> bool:
        return self.on and kind in self.kinds and self.random.random() < self.rates[kind]

    def say(self, what: str) -> None:
        if self.trace is not None:
            self.trace(what)

    def _cancels(self) -> bool:
        return self.strikes("cancel") or self.strikes(ACTIONS_CUT)

    async def gate(self, what: str) -> None:
        """An await point: time may pass here, and the process may not get beyond it."""
        if not self.on:
            return
        process = CURRENT.get()
        if process is not None and self.strikes("crash"):
            self.say(f"{process} is killed at {what}")
            self.kill(process)
            await asyncio.sleep(0)  # never returns
        if process is not None and self.strikes("freeze"):
            seconds = self.random.choice((3.0, 12.0, 35.0))
            self.say(f"{process} is frozen for {seconds:.0f} s at {what}")
            self.freeze(process, seconds)
            await asyncio.sleep(0)  # returns when it is thawed
        if process is not None and self._cancels() and self.cancel(process, what):
            await asyncio.sleep(0)  # the cancellation arrives here
        if self.random.random() < 0.15:
            await asyncio.sleep(self.random.uniform(0.001, 0.02))
        elif self.strikes("slow"):
            seconds = self.random.choice((0.5, 3.0, 20.0))
            self.say(f"{process} waits {seconds} s at {what}")
            await asyncio.sleep(seconds)
