"""A round: load on two replicas, a fault in the middle of it, calm, judgement; and again.

The seed draws the faults, the moments and what people do. Real processes are not deterministic, so a seed
that failed need not fail again; it strikes with the same faults in the same order.
"""

import asyncio
import random
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos import audit, truth
from tests.chaos.environment import ChaosEnvironment, chaos_environment
from tests.chaos.faults import Fault
from tests.chaos.figures import Strike, table
from tests.chaos.load import Load
from tests.chaos.runtime_setups import RuntimeSetup, local_setup
from tests.chaos.watching import Sentinel, Watcher

CONVERGE_SECONDS = 300.0
"""A storage job alone tries for up to a minute before it counts as failed, and a busy cluster takes its time."""


@dataclass
class Report:
    seed: int
    strikes: list[Strike] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    text: str = ""


async def play(
    faults: Sequence[Fault],
    *,
    seed: int,
    tenants: int = 8,
    setup: Callable[[Path], AbstractContextManager[RuntimeSetup]] = local_setup,
    tell: Callable[[str], None] = print,
) -> Report:
    """Strike with each of ``faults`` in turn; stops at the first broken promise."""
    report = Report(seed)
    async with chaos_environment(setup) as environment:
        await audit.install(environment)
        load = Load(environment, tenants=tenants, seed=seed)
        watchers = [Watcher(environment, replica) for replica in environment.replicas]
        sentinel = Sentinel(environment.setup)
        chance = random.Random(f"{seed}/moments")
        try:
            for number, fault in enumerate(faults, 1):
                strike, findings = await _strike(environment, fault, load, watchers, chance=chance)
                findings.doubled += [f"{each} had two servers for a while" for each in sentinel.seen]
                report.strikes.append(strike)
                tell(f"{number}/{len(faults)} {strike}")
                if findings.all:
                    report.problems = [f"after {fault.name}: {each}" for each in findings.all]
                    report.problems += [_last_words(environment)]
                    break
        finally:
            await asyncio.gather(sentinel.close(), load.close(), *(each.close() for each in watchers))
        report.text = table(report.strikes, load.figures, seed=seed)
    return report


async def _strike(
    environment: ChaosEnvironment,
    fault: Fault,
    load: Load,
    watchers: Sequence[Watcher],
    *,
    chance: random.Random,
) -> tuple[Strike, truth.Findings]:
    await environment.until_both_stand()
    load.go()
    await asyncio.sleep(chance.uniform(0.5, 4.0))
    in_flight = int(await environment.value("SELECT count(*) FROM workspaces WHERE operation <> 'NONE'"))
    struck_at = await audit.now(environment)
    await fault.strike(environment, chance)
    await asyncio.sleep(chance.uniform(0.5, 2.0))  # life goes on
    await load.pause()
    begun = time.monotonic()
    recovered = await _converge(environment, load)
    rested = time.monotonic() - begun
    await (
        environment.until_both_stand()
    )  # whoever was killed has subscribers of its own, and they need it back
    rows = await truth.read_rows(environment)
    lost_intents = load.accept({key: row["desired_state"] for key, row in rows.items()})
    findings = await truth.judge(environment, load.ledgers(), watchers, late=load.late_names())
    findings.lost += lost_intents
    strike = Strike(
        name=fault.name,
        in_flight=in_flight,
        take_over=await audit.take_over(environment, struck_at),
        converge_seconds=rested,
        recovered=recovered,
        lost=len(findings.lost),
        doubled=len(findings.doubled),
    )
    return strike, findings


async def _converge(environment: ChaosEnvironment, load: Load) -> int:
    """Until everything is at rest where it is wanted. Returns how many terminal errors a person lifted."""
    recovered = 0
    deadline = time.monotonic() + CONVERGE_SECONDS
    while wrong := await truth.restless(environment):
        assert time.monotonic() < deadline, f"not at rest: {wrong}\n{_last_words(environment)}"
        rows = await truth.read_rows(environment)
        for key in (key for key, row in rows.items() if row["gave_up"] and not row["deleted"]):
            owner = next(each for each in load.tenants if each.ledger and each.ledger.id == key)
            await owner.recover()
            recovered += 1
        await asyncio.sleep(0.2)
    return recovered


def _last_words(environment: ChaosEnvironment) -> str:
    return "\n".join(f"--- {each.name} ---\n{each.last_words()}" for each in environment.replicas)
