"""From the intent to a workspace that answers: one at a time, and fifty at once.

Both sides run the same trivial server. JupyterHub's users exist beforehand and its POST returns once the
server is ready; a new CodeHub workspace has to get its home first, so it is measured both new and when
it wakes from standby. Ready means for both: one request through the front door has been answered.
"""

import asyncio
import time
from collections.abc import Awaitable, Mapping
from pathlib import Path
from uuid import uuid4

from bench.codehub_side import CodeHub, Events, codehub, events
from bench.jupyterhub_side import JupyterHub, jupyterhub
from bench.processes import cpu_seconds
from bench.runner import Bar, Measure, Report, take_turns

AT_ONCE = 50


async def one_at_a_time(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "start",
        "POST → ready, one at a time (seconds)",
        bars=[
            Bar("seconds", "codehub new", "jupyterhub", at_most=0.7),
            Bar("seconds", "codehub wake", "jupyterhub", at_most=0.7),
        ],
    )
    async with codehub(directory) as ours, jupyterhub(directory) as theirs, events(ours) as seen:
        sleeping = await new(ours, seen)
        await stop(ours, seen, sleeping)
        names = iter(f"one-{number}" for number in range(10_000))
        sides: dict[str, Measure] = {
            "codehub new": lambda: timed(new_and_delete(ours, seen)),
            "codehub wake": lambda: timed(wake(ours, seen, sleeping)),
            "jupyterhub": lambda: timed(_jupyter(theirs, next(names))),
        }
        for side in sides.values():  # connections, caches and imports of the first time are nobody's figure
            await side()
        await take_turns(report, sides, rounds=rounds)
    return report


async def at_once(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "start-50",
        f"POST → ready, {AT_ONCE} at once",
        bars=[
            Bar("seconds in all", "codehub", "jupyterhub", at_most=0.3),
            Bar("control-plane CPU ms each", "codehub", "jupyterhub", at_most=0.4),
        ],
    )
    async with codehub(directory) as ours, jupyterhub(directory) as theirs, events(ours) as seen:
        sides = {
            "codehub": lambda: burst_codehub(ours, seen),
            "jupyterhub": lambda: _burst_jupyterhub(theirs),
        }
        await take_turns(report, sides, rounds=rounds)
    return report


async def timed(seconds: Awaitable[float]) -> Mapping[str, float]:
    return {"seconds": await seconds}


async def new(hub: CodeHub, seen: Events) -> str:
    workspace_id = await hub.create(f"one-{uuid4().hex[:12]}")
    await seen.until(workspace_id, "running")
    assert await hub.answers(workspace_id)
    return workspace_id


async def new_and_delete(hub: CodeHub, seen: Events) -> float:
    began = time.perf_counter()
    workspace_id = await new(hub, seen)
    took = time.perf_counter() - began
    await hub.delete(workspace_id)
    await seen.until(workspace_id, "deleted")
    return took


async def stop(hub: CodeHub, seen: Events, workspace_id: str) -> None:
    await hub.ask(workspace_id, "stop")
    await seen.until(workspace_id, "standby")


async def wake(hub: CodeHub, seen: Events, workspace_id: str) -> float:
    began = time.perf_counter()
    await hub.ask(workspace_id, "start")
    await seen.until(workspace_id, "running")
    assert await hub.answers(workspace_id)
    took = time.perf_counter() - began
    await stop(hub, seen, workspace_id)
    return took


async def _jupyter(hub: JupyterHub, name: str) -> float:
    await hub.add_users([name])
    began = time.perf_counter()
    await hub.start(name)
    assert await hub.answers(name)
    took = time.perf_counter() - began
    await hub.stop(name)
    return took


async def burst_codehub(hub: CodeHub, seen: Events) -> Mapping[str, float]:
    batch = uuid4().hex[:8]
    pids = hub.pids()
    before, began = cpu_seconds(pids), time.perf_counter()

    async def one(number: int) -> str:
        workspace_id = await hub.create(f"{batch}-{number}")
        await seen.until(workspace_id, "running")
        assert await hub.answers(workspace_id)
        return workspace_id

    made = await asyncio.gather(*(one(number) for number in range(AT_ONCE)))
    figures = _figures(hub.pids(), before=before, began=began)
    await asyncio.gather(*(hub.delete(each) for each in made))
    await asyncio.gather(*(seen.until(each, "deleted") for each in made))
    return figures


async def _burst_jupyterhub(hub: JupyterHub) -> Mapping[str, float]:
    batch = uuid4().hex[:8]
    names = [f"{batch}-{number}" for number in range(AT_ONCE)]
    await hub.add_users(names)
    pids = hub.pids()
    before, began = cpu_seconds(pids), time.perf_counter()

    async def one(name: str) -> None:
        await hub.start(name)
        assert await hub.answers(name)

    await asyncio.gather(*(one(name) for name in names))
    figures = _figures(hub.pids(), before=before, began=began)
    await asyncio.gather(*(hub.stop(name) for name in names))
    return figures


def _figures(pids: list[int], *, before: float, began: float) -> Mapping[str, float]:
    return {
        "seconds in all": time.perf_counter() - began,
        "control-plane CPU ms each": (cpu_seconds(pids) - before) / AT_ONCE * 1000,
    }
