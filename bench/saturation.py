"""Does a saturated proxy slow the rest? The API's answers and the coordinators' ticks, with and without load.

The load is that of ``proxy-http``: as many requests through the proxy as it can take. Meanwhile the API is
asked twenty times a second, each answer timed from when the question was due (a late question counts as a
slow answer), at the front door, where the question waits its turn among the load, and at the API's own
socket. How late ticks began is the server's own measurement, from ``/metrics``. Ticks come once a second
here, not once in ten: there would be too few of them to judge.
"""

import asyncio
import contextlib
import re
import statistics
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from bench.codehub_side import CodeHub, codehub, events
from bench.load import wrk
from bench.runner import Bar, Report, take_turns
from codehub.server.data_dir import DataDir

CONNECTIONS = 32
SECONDS = 10.0
EVERY = 0.05
_LAG = re.compile(
    r'^codehub_tick_lag_seconds_(sum|count|bucket)\{coordinator="[^"]+"(?:,le="([^"]+)")?\} (\S+)'
)

Lag = Mapping[str, float]
"""Sum and count over all coordinators, and for each bucket's upper end how many ticks were within it."""


async def saturated(directory: Path, *, rounds: int) -> Report:
    report = Report(
        "proxy-saturated",
        f"The rest of CodeHub while {CONNECTIONS} connections saturate the proxy",
        bars=[
            Bar("API p99 ms", "full load", at_most=100),
            Bar("API p99 ms, past the proxy", "full load", at_most=100),
            Bar("tick lag ms, mean", "full load", at_most=100),
        ],
    )
    every_second = {"OBSERVER_INTERVAL": "1", "RECONCILER_INTERVAL": "1"}
    async with codehub(directory, **every_second) as hub, events(hub) as seen:
        workspace_id = await hub.create("measured", image="nginx")
        await seen.until(workspace_id, "running")
        assert await hub.answers(workspace_id)

        question = f"/api/v1/workspaces/{workspace_id}"

        async def load() -> Mapping[str, float]:
            url, headers = f"{hub.url}/w/{workspace_id}/", {"Cookie": hub.cookie}
            got = await wrk(url, headers=headers, connections=CONNECTIONS, seconds=SECONDS)
            return {"proxied requests/s": got["requests/s"]}

        async def nothing() -> Mapping[str, float]:
            await asyncio.sleep(SECONDS)
            return {}

        async def measure(*, loaded: bool) -> Mapping[str, float]:
            before = await _lag(hub)
            doing = asyncio.create_task(load() if loaded else nothing())
            try:
                seen_by = await asyncio.gather(
                    _ask(hub, question, doing, direct=False), _ask(hub, question, doing, direct=True)
                )
                return {**await doing, **_api(*seen_by), **_ticks(before, await _lag(hub))}
            finally:
                doing.cancel()

        sides = {
            "at rest": lambda: measure(loaded=False),
            "full load": lambda: measure(loaded=True),
        }
        await take_turns(report, sides, rounds=rounds)
    return report


def _api(front: list[float], direct: list[float]) -> dict[str, float]:
    return {
        "API p50 ms": statistics.median(front) * 1e3,
        "API p99 ms": statistics.quantiles(front, n=100)[-1] * 1e3,
        "API p99 ms, past the proxy": statistics.quantiles(direct, n=100)[-1] * 1e3,
    }


def _ticks(before: Lag, after: Lag) -> dict[str, float]:
    count = after["count"] - before.get("count", 0)
    whole = {end: number - before.get(end, 0) for end, number in after.items() if end not in ("sum", "count")}
    all_within = min(float(end) for end, number in whole.items() if number >= count)
    return {
        "ticks": count,
        "tick lag ms, mean": (after["sum"] - before.get("sum", 0)) / max(count, 1) * 1e3,
        "tick lag ms, all within": all_within * 1e3,
    }


async def _lag(hub: CodeHub) -> Lag:
    found: dict[str, float] = {}
    for line in (await hub.client.get("/metrics")).text.splitlines():
        if match := _LAG.match(line):
            key = match[2] or match[1]
            found[key] = found.get(key, 0.0) + float(match[3])
    return found


async def _ask(
    hub: CodeHub, question: str, until_done: asyncio.Task[Mapping[str, float]], *, direct: bool
) -> list[float]:
    """Seconds from when each question was due to its answer."""
    loop, took = asyncio.get_running_loop(), list[float]()
    head = f"GET {question} HTTP/1.1\r\nHost: {hub.url.partition('//')[2]}\r\nCookie: {hub.cookie}\r\n\r\n"
    async with _connection(hub, direct=direct) as (reader, writer):
        due = loop.time()
        while not until_done.done():
            writer.write(head.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            assert length is not None
            await reader.readexactly(int(length[1]))
            took.append(loop.time() - due)
            due += EVERY
            await asyncio.sleep(max(0.0, due - loop.time()))
    return took


@contextlib.asynccontextmanager
async def _connection(
    hub: CodeHub, *, direct: bool
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    if direct:
        path = next(DataDir(hub.data_dir).sockets().glob("api-*.sock"))
        reader, writer = await asyncio.open_unix_connection(path)
    else:
        host, _, port = hub.url.partition("//")[2].partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.close()
