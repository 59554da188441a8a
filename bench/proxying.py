"""The way to a workspace: small requests, WebSocket messages, and one large download.

The workspace is the same process for every side. CodeHub checks who asks, every time; nginx and
configurable-http-proxy check nothing. CPU is the proxy's own: on a small machine the load generator and the
workspace share the processors with it, so throughput alone flatters whoever is slowest.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.codehub_side import CodeHub, codehub, events
from bench.load import echoes, wrk
from bench.processes import PROGRAMS, cpu_seconds, resident_mib
from bench.proxy_peers import http_proxy, nginx
from bench.runner import Bar, Report, take_turns

CONNECTIONS = 32
SECONDS = 4.0
SECONDS_OF_ECHOES = 1.0  # short and many: a busy host slows the machine for seconds at a time
SIZES = (64, 16 * 1024)
LARGE_MIB = 256


@dataclass(frozen=True)
class Way:
    """One way to the workspace."""

    url: str
    headers: Mapping[str, str]
    pids: list[int]


async def small_requests(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "proxy-http",
        f"HTTP through the proxy, {CONNECTIONS} connections, 46 bytes",
        bars=[
            Bar("requests/s", "codehub", "nginx", at_least=0.7),
            Bar("requests/s", "codehub", "configurable-http-proxy", at_least=7),
            Bar("each another path, requests/s", "codehub", "nginx", at_least=0.7),
            Bar("each another path, requests/s", "codehub", "configurable-http-proxy", at_least=7),
        ],
    )
    async with ways(directory, image="nginx") as found:
        await _compare(report, found, rounds=rounds, unit="request", load=_small)
        await _compare(
            report, found, rounds=rounds, unit="request", load=_other_paths, prefix="each another path, "
        )
    return report


async def websockets(directory: Path, *, rounds: int) -> Report:
    names = {size: f"{size} B" if size < 1024 else f"{size // 1024} KiB" for size in SIZES}
    report = Report(
        "proxy-websocket",
        f"WebSocket echo through the proxy, {CONNECTIONS} connections",
        bars=[Bar(f"{name}, messages/s", "codehub", "nginx", at_least=1) for name in names.values()],
    )
    async with ways(directory, image="echo") as found:
        for size, name in names.items():
            await _compare(report, found, rounds=rounds, unit="message", load=_echo(size), prefix=f"{name}, ")
    return report


async def download(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "proxy-download",
        f"Download of {LARGE_MIB} MiB through the proxy",
        bars=[
            Bar("MiB/s", "codehub", "nginx", at_least=0.9),
            Bar("memory grown, MiB", "codehub", at_most=16),
        ],
    )
    async with ways(directory, image="nginx") as found:
        sides = {name: (lambda way=way: _fetch(way)) for name, way in found.items()}
        await take_turns(report, sides, rounds=rounds)
    return report


@contextlib.asynccontextmanager
async def ways(directory: Path, *, image: str) -> AsyncIterator[dict[str, Way]]:
    """CodeHub with one such workspace, and the peers in front of that workspace's own port."""
    async with codehub(directory) as hub, events(hub) as seen:
        workspace_id = await hub.create("measured", image=image)
        await seen.until(workspace_id, "running")
        assert await hub.answers(workspace_id)
        port = _port_of(hub, workspace_id)
        async with nginx(directory, upstream=port) as first, http_proxy(directory, upstream=port) as second:
            yield {
                "codehub": Way(
                    f"{hub.url}/w/{workspace_id}/",
                    {"Cookie": hub.cookie, "Origin": hub.url},
                    hub.proxy_pids(),
                ),
                "nginx": Way(f"{first.url}/", {}, first.pids()),
                "configurable-http-proxy": Way(f"{second.url}/", {}, second.pids()),
            }


def _port_of(hub: CodeHub, workspace_id: str) -> int:
    """The local runtime keeps who runs, and on which port, in a file of that name."""
    record = next(hub.data_dir.glob(f"**/processes/{workspace_id}"))
    return int(json.loads(record.read_text())["port"])


Load = Callable[[Way], Awaitable[Mapping[str, float]]]


async def _compare(
    report: Report, found: Mapping[str, Way], *, rounds: int, unit: str, load: Load, prefix: str = ""
) -> None:
    async def measure(way: Way) -> dict[str, float]:
        before, began = cpu_seconds(way.pids), time.perf_counter()
        figures = dict(await load(way))
        took = time.perf_counter() - began
        handled = figures[f"{unit}s/s"] * took
        figures[f"proxy CPU µs a {unit}"] = (cpu_seconds(way.pids) - before) / handled * 1e6
        return {prefix + metric: value for metric, value in figures.items()}

    sides = {name: (lambda way=way: measure(way)) for name, way in found.items()}
    await take_turns(report, sides, rounds=rounds)


async def _small(way: Way) -> Mapping[str, float]:
    return await wrk(way.url, headers=way.headers, connections=CONNECTIONS, seconds=SECONDS)


async def _other_paths(way: Way) -> Mapping[str, float]:
    script = PROGRAMS / "other_paths.lua"
    return await wrk(way.url, headers=way.headers, connections=CONNECTIONS, seconds=SECONDS, script=script)


def _echo(size: int) -> Load:
    async def load(way: Way) -> Mapping[str, float]:
        return await echoes(
            way.url, headers=way.headers, connections=CONNECTIONS, size=size, seconds=SECONDS_OF_ECHOES
        )

    return load


async def _fetch(way: Way) -> Mapping[str, float]:
    before = sum(map(resident_mib, way.pids))
    used, began = cpu_seconds(way.pids), time.perf_counter()
    arguments = [f"-H{name}: {value}" for name, value in way.headers.items()]
    process = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--fail", "--noproxy", "*", "-o", "/dev/null", *arguments, f"{way.url}large"
    )
    highest = before
    while process.returncode is None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(process.wait()), 0.02)
        highest = max(highest, sum(map(resident_mib, way.pids)))
    took = time.perf_counter() - began
    assert process.returncode == 0
    return {
        "MiB/s": LARGE_MIB / took,
        "proxy CPU s": cpu_seconds(way.pids) - used,
        "memory grown, MiB": highest - before,
    }
