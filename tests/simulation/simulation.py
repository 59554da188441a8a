"""A run: people and faults for a minute, then calm; in the end everything must have come to rest.

``run(seed)`` gives an ``Outcome``. The same seed takes the same steps: a failing run is run again with a
trace of what happened, and that is the report.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from codehub.domain.states import ContainerState, DesiredState, ObservedStatus, Operation
from codehub.domain.workspace import WorkspaceView
from tests.simulation.determinism import in_environment
from tests.simulation.environment import REPLICAS, SimulatedEnvironment
from tests.simulation.events import Events
from tests.simulation.loop import Process, VirtualLoop, run_virtually
from tests.simulation.person import People

BUSY_SECONDS = 60.0
SETTLE_SECONDS = 240.0
"""The longest chain of pauses there may be once faults are off: a hung action's limit, then retries."""

GC_ALLOWANCE = timedelta(seconds=90)
"""A delay of 30 s, a cycle that sees it and one that removes it, each up to 20 s late, and a take-over."""

RECOVERIES = 4
LOOK_SECONDS = 12.0


@dataclass(frozen=True)
class Outcome:
    seed: int
    problem: str | None
    steps: int
    seconds: float  # of virtual time
    trace: tuple[str, ...] = ()

    def report(self) -> str:
        lines = "\n".join(self.trace[-400:])
        return f"seed {self.seed}: {self.problem or 'holds'}\n{lines}\nAgain: make simulate SEEDS={self.seed}"


def run(seed: int, *, traced: bool = False, focus: Mapping[str, float] | None = None) -> Outcome:
    """Run one seed. The product must have been put on the simulation (``deterministic``) before."""
    trace: list[str] | None = [] if traced else None
    processes: list[Process] = []

    async def main(loop: VirtualLoop) -> Outcome:
        environment = SimulatedEnvironment(seed, loop, trace=trace, focus=focus)
        environment.processes = processes
        with in_environment(environment):
            await _until_broken(environment, _play(environment))
            environment.chaos.on = False
            problem = environment.problems[0] if environment.problems else None
            return Outcome(seed, problem, loop.steps, loop.time())

    outcome = run_virtually(main, processes)
    return Outcome(seed, outcome.problem, outcome.steps, outcome.seconds, tuple(trace or ()))


def investigate(seed: int) -> Outcome:
    """Run it, and where it fails run it again with a trace; both must agree."""
    first = run(seed)
    if first.problem is None:
        return first
    second = run(seed, traced=True)
    assert second.problem == first.problem, f"seed {seed} is not deterministic: {first}, then {second}"
    return second


def play(script: Callable[[SimulatedEnvironment, People], Coroutine[Any, Any, None]]) -> str | None:
    """A scenario without chance: one replica, no faults but those of the script. Returns what it broke."""
    processes: list[Process] = []

    async def main(loop: VirtualLoop) -> str | None:
        environment = SimulatedEnvironment(0, loop)
        environment.chaos.on, environment.processes = False, processes
        with in_environment(environment):
            environment.start_replica(REPLICAS[0])
            await _until_broken(environment, script(environment, People(environment)))
            return environment.problems[0] if environment.problems else None

    return run_virtually(main, processes)


async def until(condition: Callable[[], bool], *, seconds: float = 60.0) -> None:
    """For scripts: fails if it does not come true in time."""
    assert await _wait(condition, seconds=seconds)


async def _until_broken(environment: SimulatedEnvironment, play: Coroutine[Any, Any, None]) -> None:
    playing = asyncio.ensure_future(play)
    broken = asyncio.ensure_future(environment.broken.wait())
    await asyncio.wait({playing, broken}, return_when=asyncio.FIRST_COMPLETED)
    if playing.done():
        playing.result()
    playing.cancel()
    broken.cancel()


async def _play(environment: SimulatedEnvironment) -> None:
    people, events = People(environment), Events(environment)
    for name in REPLICAS:
        environment.start_replica(name)
    busy = asyncio.ensure_future(events.happen(BUSY_SECONDS))
    await people.live(BUSY_SECONDS)
    await busy
    events.end()
    environment.say("from here on nothing fails")
    await _settle(environment, "after the faults")
    for _ in range(RECOVERIES):
        if not await _recover(environment, people):
            break
        await _settle(environment, "after recovery")
    await _judge_rest(environment)


async def _recover(environment: SimulatedEnvironment, people: People) -> bool:
    """Lift what a person can lift; False: nothing was left to lift."""
    wrong = [
        ws
        for ws in _views(environment)
        if (_in_error(ws) or _given_up(ws)) and not environment.is_lost_for_good(ws)
    ]
    for ws in wrong:
        await people.recover(ws)
    if wrong:
        await asyncio.sleep(LOOK_SECONDS)  # health turns back with the next look
    return bool(wrong)


async def _settle(environment: SimulatedEnvironment, when: str) -> None:
    """Invariant 7: everything converges, nothing is stuck."""

    def restless() -> list[str]:
        waiting = [f"{each} waits beside a free place" for each in environment.queue_guard.overlooked()]
        return waiting + [
            f"{ws.id} {ws.operation} seen {ws.observed_status} wants {ws.desired_state}"
            for ws in _views(environment)
            if not _at_rest(ws)
        ]

    if not await _wait(lambda: not restless(), seconds=SETTLE_SECONDS):
        environment.violate(f"7: not at rest {when}: {'; '.join(restless())}")
        await asyncio.sleep(1)


async def _judge_rest(environment: SimulatedEnvironment) -> None:
    """What must be true when nothing happens any more."""
    for ws in _views(environment):
        if _given_up(ws):
            environment.violate(f"7: {ws.id} could not be archived after every recovery: {ws.error_info}")
        if _in_error(ws) and not environment.is_lost_for_good(ws):
            environment.violate(f"7: {ws.id} is in error after every recovery: {ws.error_info}")
    calm_at = environment.database.now()
    while environment.guard.needless_archives():
        allowed = environment.database.now() - GC_ALLOWANCE
        if allowed >= calm_at and (overdue := environment.guard.needless_archives(since=allowed)):
            environment.violate(f"5: archives nobody needs: {overdue}")
        await asyncio.sleep(0.5)
    await _settle(environment, "in the end")
    if not await _wait(lambda: not _strangers(environment), seconds=20):
        environment.violate(f"5: {', '.join(_strangers(environment))}")
    if not await _wait(lambda: _told(environment), seconds=30):
        environment.violate("8: a browser does not know what the database says")


def _strangers(environment: SimulatedEnvironment) -> list[str]:
    """Containers, volumes and jobs that no row accounts for."""
    found = []
    for workspace_id, place in environment.engine.places.items():
        ws = environment.find(workspace_id)
        assert ws is not None
        if place.job is not None and not place.job.task.done() and ws.operation is Operation.NONE:
            found.append(f"a storage job of {workspace_id} goes on")
        if ws.operation is not Operation.NONE:
            continue
        if place.container is ContainerState.RUNNING and ws.observed_status is not ObservedStatus.RUNNING:
            found.append(f"a container of {workspace_id} runs unseen")
        unseen = ws.observed_status in (ObservedStatus.PENDING, ObservedStatus.DELETED)
        if place.volume is not None and unseen and not environment.is_of_nobody(ws):
            found.append(f"a volume of {workspace_id} exists unseen")
    return found


def _told(environment: SimulatedEnvironment) -> bool:
    return all(environment.live.known.get(ws.id) == ws.version for ws in _views(environment))


def _at_rest(ws: WorkspaceView) -> bool:
    if ws.operation is not Operation.NONE:
        return False
    if ws.deleted_at is not None:
        return ws.observed_status is ObservedStatus.DELETED
    if _in_error(ws):
        return ws.health_status.value == "ERROR" and ws.error_info is not None
    if ws.restore_from is not None:
        return False
    return ws.observed_status.value == ws.desired_state.value or _given_up(ws)


def _given_up(ws: WorkspaceView) -> bool:
    """It waits for hours, or for a person."""
    return ws.deleted_at is None and ws.desired_state is DesiredState.PENDING and ws.archiving_given_up


def _in_error(ws: WorkspaceView) -> bool:
    return ws.deleted_at is None and ws.in_error


def _views(environment: SimulatedEnvironment) -> list[WorkspaceView]:
    return [row.view for row in environment.rows()]


async def _wait(condition: Callable[[], bool], *, seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not condition():
        if loop.time() > deadline:
            return False
        await asyncio.sleep(0.5)
    return True
