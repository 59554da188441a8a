"""This version beside another one: starts, fifty at once, the API, the proxy, WebSockets, idle.

``BEFORE=/path/to/a/checkout make bench BENCH=versions``, where ``make setup`` was run in that checkout. Both run on
the same machine and take turns. The bars are what a change may cost that is not about speed.
"""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Iterable, Mapping
from pathlib import Path

from bench import starts
from bench.codehub_side import IMAGES, CodeHub, Events, codehub, events
from bench.load import echoes, wrk
from bench.processes import cpu_nanoseconds, cpu_seconds
from bench.runner import Bar, Report, take_turns

CONNECTIONS = 16
SECONDS = 2.0
KNOWN = 50
IDLE_SECONDS = 60.0
IDLE_WINDOWS = 5
SLOWER = 1.05
BURSTS = 3
METRICS = (
    "new, seconds",
    "wake, seconds",
    f"{starts.AT_ONCE} at once, seconds",
    f"{starts.AT_ONCE} at once, CPU ms each",
)
LOADS = ("one by API", f"list of {KNOWN} by API", "small requests", "WebSocket 64 B", "WebSocket 16 KiB")


async def compare(directory: Path, *, rounds: int) -> Report:
    before = Path(os.environ.get("BEFORE") or "").resolve() / ".venv/bin/python"  # noqa: ASYNC240 - nothing runs yet
    if not os.environ.get("BEFORE") or not before.exists():
        raise SystemExit("BEFORE must name a checkout of another version in which `make setup` was run.")
    bars = [Bar(metric, "now", "before", at_most=SLOWER) for metric in (*METRICS, "idle, CPU %")]
    bars += [Bar(f"{load}, CPU µs each", "now", "before", at_most=SLOWER) for load in LOADS]
    bars += [Bar(f"{load}, per second", "now", "before", at_least=1 / SLOWER) for load in LOADS]
    report = Report("versions", "This version beside another one", bars=bars)
    for name in ("before", "now"):
        (directory / name).mkdir()
    async with (
        _side(directory / "before", python=str(before)) as old,
        _side(directory / "now") as new,
    ):
        sides = {"before": old, "now": new}
        for side in sides.values():
            await side.starts()  # connections, caches and imports of the first time are nobody's figure
        await take_turns(report, {name: side.starts for name, side in sides.items()}, rounds=rounds * 2)
        await take_turns(report, {name: side.burst for name, side in sides.items()}, rounds=BURSTS)
        await take_turns(report, {name: side.loads for name, side in sides.items()}, rounds=rounds)
        await _idle(report, sides)
    return report


class _Side:
    def __init__(self, hub: CodeHub, seen: Events) -> None:
        self.hub = hub
        self._seen = seen
        self._sleeping = ""
        self._running: dict[str, str] = {}

    async def prepare(self) -> None:
        self._sleeping = await starts.new(self.hub, self._seen)
        await starts.stop(self.hub, self._seen, self._sleeping)
        await asyncio.gather(*(self.hub.create(f"known-{n}", start=False) for n in range(KNOWN)))
        for image in ("nginx", "echo"):
            self._running[image] = await self.hub.create(f"running-{image}", image=image)
            await self._seen.until(self._running[image], "running")
            assert await self.hub.answers(self._running[image])

    async def starts(self) -> Mapping[str, float]:
        new = await starts.new_and_delete(self.hub, self._seen)
        return {"new, seconds": new, "wake, seconds": await starts.wake(self.hub, self._seen, self._sleeping)}

    async def burst(self) -> Mapping[str, float]:
        found = await starts.burst_codehub(self.hub, self._seen)
        return {
            f"{starts.AT_ONCE} at once, seconds": found["seconds in all"],
            f"{starts.AT_ONCE} at once, CPU ms each": found["control-plane CPU ms each"],
        }

    async def loads(self) -> Mapping[str, float]:
        url, headers = self.hub.url, {"Cookie": self.hub.cookie, "Origin": self.hub.url}
        figures: dict[str, float] = {}
        addresses = (
            f"{url}/api/v1/workspaces/{self._sleeping}",
            f"{url}/api/v1/workspaces?limit={KNOWN}",
            f"{url}/w/{self._running['nginx']}/",
        )
        for load, address in zip(LOADS, addresses, strict=False):
            figures |= await self._measured(
                load, "requests/s", wrk(address, headers=headers, connections=CONNECTIONS, seconds=SECONDS)
            )
        echo = f"{url}/w/{self._running['echo']}/"
        for load, size in zip(LOADS[3:], (64, 16 * 1024), strict=True):
            figures |= await self._measured(
                load,
                "messages/s",
                echoes(echo, headers=headers, connections=CONNECTIONS, size=size, seconds=SECONDS),
            )
        return figures

    async def _measured(self, load: str, unit: str, work: Awaitable[Mapping[str, float]]) -> dict[str, float]:
        pids = self.hub.pids()
        before, began = cpu_seconds(pids), time.perf_counter()
        rate = (await work)[unit]
        handled = rate * (time.perf_counter() - began)
        return {
            f"{load}, per second": rate,
            f"{load}, CPU µs each": (cpu_seconds(pids) - before) / handled * 1e6,
        }


def _cpu(pids: Iterable[int]) -> int:
    """Nanoseconds so far. A process that has gone counts nothing."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += cpu_nanoseconds(pid)
    return total


async def _idle(report: Report, sides: Mapping[str, _Side]) -> None:
    """Both wait at the same time, so the machine's mood is the same for both."""
    for _ in range(IDLE_WINDOWS):
        pids = {name: side.hub.pids() for name, side in sides.items()}
        before = {name: _cpu(pids[name]) for name in sides}
        await asyncio.sleep(IDLE_SECONDS)
        for name in sides:
            spent = _cpu(pids[name]) - before[name]
            report.add(name, {"idle, CPU %": spent / IDLE_SECONDS / 1e9 * 100})


@contextlib.asynccontextmanager
async def _side(directory: Path, **options: str) -> AsyncIterator[_Side]:
    images = {
        name: command for name, command in IMAGES.items() if "{port}" in command
    }  # every version knows these
    variables = {"LOCAL_IMAGES": json.dumps(images), **options}
    async with codehub(directory, **variables) as hub, events(hub) as seen:
        side = _Side(hub, seen)
        await side.prepare()
        yield side
