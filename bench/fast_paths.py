"""What each fast path of the proxy saves: the same load with it and without it, in turns.

One CodeHub with two workspaces. Each round starts one more proxy for every path that is taken out (``without``), on the
same database, and a whole one. Every path is measured right beside the whole proxy, and the ratio of the two counts:
CPU time of the proxy's process for each request, which a busy machine changes little. ``nothing`` takes nothing out:
how far it is from 1 is how far a single process is from another, and the reason for new processes in each round.
"""

import contextlib
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from tests.support.ports import free_ports

from bench.codehub_side import CodeHub, codehub, events
from bench.load import echoes, handshakes, wrk
from bench.processes import PROGRAMS, cpu_nanoseconds, running
from bench.proxy_peers import until_listening
from bench.runner import Bar, Report
from bench.without import NOTHING, WHOLE

CONNECTIONS = 32
SECONDS = 1.0
WORTH = 1.05  # what a fast path has to save to stay

Load = Callable[[str, Mapping[str, str]], Awaitable[float]]
"""Loads the workspace at a URL; returns how many requests or messages were handled."""


def _requests(*, script: str | None = None, fields: Mapping[str, str] | None = None) -> Load:
    async def load(url: str, headers: Mapping[str, str]) -> float:
        sent = {**headers, **(fields or {})}
        path = PROGRAMS / script if script else None
        figures = await wrk(url, headers=sent, connections=CONNECTIONS, seconds=SECONDS, script=path)
        return figures["requests/s"] * SECONDS

    return load


async def _open_sockets(url: str, headers: Mapping[str, str]) -> float:
    return await handshakes(url, headers=headers, places=8, seconds=SECONDS)


async def _echo(url: str, headers: Mapping[str, str]) -> float:
    figures = await echoes(url, headers=headers, connections=CONNECTIONS, size=64, seconds=SECONDS)
    return figures["messages/s"] * SECONDS


LOADS: Mapping[str, tuple[str, Load]] = {  # name → image of the workspace, load
    "GET": ("nginx-socket", _requests()),
    "GET, other paths": ("nginx-socket", _requests(script="other_paths.lua")),
    "GET, three kinds": ("nginx-socket", _requests(script="kinds.lua")),
    "GET, new connections": ("nginx-socket", _requests(fields={"Connection": "close"})),
    "WebSocket open": ("echo-socket", _open_sockets),
    "WebSocket message": ("echo-socket", _echo),
}
PAYS_FOR: Mapping[str, Sequence[str]] = {  # path → loads
    NOTHING: tuple(LOADS),
    "directory cache": ("GET",),
    "upstream pool": ("GET",),
    "no task for a known request": ("GET, new connections",),
    "workspace ids": ("GET, new connections",),
    "admission cache": ("GET", "GET, other paths"),
    "four admissions a connection": ("GET, three kinds",),
    "exchange used again": ("GET",),
    "response heads": ("GET",),
    "one write for a small response": ("GET",),
    "relay": ("WebSocket message", "WebSocket open"),
    "relay and small frames": ("WebSocket message",),
}


async def fast_paths(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "fast-paths",
        "CPU of the proxy for each request or message, without a fast path ÷ with it",
        bars=[
            Bar(f"{loads[0]}, without ÷ with", path, at_least=WORTH)
            for path, loads in PAYS_FOR.items()
            if path != NOTHING
        ],
    )
    async with codehub(directory) as hub, events(hub) as seen:
        ids: dict[str, str] = {}
        for image in {image for image, _ in LOADS.values()}:
            ids[image] = await hub.create(image, image=image)
            await seen.until(ids[image], "running")
            assert await hub.answers(ids[image])
        for number in range(rounds):
            logs = directory / f"round-{number}"
            logs.mkdir()
            async with _proxies(hub, logs) as proxies:
                await _round(report, hub, proxies, ids, is_even=number % 2 == 0)
            print(f"  round {number + 1}/{rounds}", flush=True)  # noqa: T201 - a program that prints
    return report


async def _round(
    report: Report,
    hub: CodeHub,
    proxies: Mapping[str, tuple[int, int]],
    ids: Mapping[str, str],
    *,
    is_even: bool,
) -> None:
    async def cost(proxy: str, what: str) -> float:
        """Microseconds of CPU for each request."""
        (port, pid), (image, load) = proxies[proxy], LOADS[what]
        url = f"http://127.0.0.1:{port}"
        before = cpu_nanoseconds(pid)
        handled = await load(f"{url}/w/{ids[image]}/", {"Cookie": hub.cookie, "Origin": url})
        return (cpu_nanoseconds(pid) - before) / handled / 1000

    for proxy in proxies:  # the first connections and the directory's first answers are no part of it
        await cost(proxy, "GET")
    for what in LOADS:
        for path in [path for path, loads in PAYS_FOR.items() if what in loads]:
            first, second = (path, WHOLE) if is_even else (WHOLE, path)
            costs = {first: await cost(first, what), second: await cost(second, what)}
            report.add(WHOLE, {f"{what}, µs": costs[WHOLE]})
            report.add(
                path, {f"{what}, µs": costs[path], f"{what}, without ÷ with": costs[path] / costs[WHOLE]}
            )


@contextlib.asynccontextmanager
async def _proxies(hub: CodeHub, logs: Path) -> AsyncIterator[dict[str, tuple[int, int]]]:
    """A whole proxy and one without each path, started as the supervisor started the hub's: name → port and pid."""
    (own,) = hub.proxy_pids()
    given = Path(f"/proc/{own}/environ").read_bytes().decode().split("\0")  # noqa: ASYNC240 - not a disk
    environment = dict(each.split("=", 1) for each in given if each)
    names = [WHOLE, *PAYS_FOR]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    async with contextlib.AsyncExitStack() as stack:
        found: dict[str, tuple[int, int]] = {}
        for at, (name, port) in enumerate(ports.items()):
            command = (sys.executable, "-m", "bench.without", name, str(port), str(logs / f"numbers-{at}"))
            process = await stack.enter_async_context(
                running(command, log=logs / f"proxy-{at}.log", env=environment)
            )
            found[name] = (port, process.pid)
        for port in ports.values():
            await until_listening(port, seconds=120)  # they start at once
        yield found
