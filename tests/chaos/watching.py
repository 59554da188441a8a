"""Those who look on all the while: subscribers of events, and a sentinel over the processes."""

import asyncio
import json
from typing import Any

import httpx

from tests.chaos.environment import ChaosEnvironment, client
from tests.chaos.replica import Replica
from tests.chaos.runtime_setups import RuntimeSetup

SILENCE_SECONDS = 45.0  # a heartbeat comes every 30
PAUSE_SECONDS = 0.2
LOOK_SECONDS = 0.3


class Watcher:
    """A browser that connects again whenever it must. What it knows is merged from events alone, as the
    dashboard does it; it never asks for the list."""

    def __init__(self, environment: ChaosEnvironment, replica: Replica) -> None:
        self._client = client(environment, timeout=SILENCE_SECONDS)
        self._url = f"{replica.url}/api/v1/events"
        self._task = asyncio.create_task(self._watch())
        self.replica = replica
        self.known: dict[str, tuple[int, str]] = {}  # id → version and status
        self.connections = 0

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._client.aclose()

    async def _watch(self) -> None:
        while True:
            try:
                async with self._client.stream("GET", self._url) as answer:
                    if answer.status_code == httpx.codes.OK:
                        self.connections += 1
                        await self._read(answer)
            except httpx.TransportError:
                pass
            await asyncio.sleep(PAUSE_SECONDS)

    async def _read(self, answer: httpx.Response) -> None:
        event = ""
        async for line in answer.aiter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                event = value
            elif name == "data":
                self._take(event, json.loads(value))

    def _take(self, event: str, data: dict[str, Any]) -> None:
        match event:
            case "snapshot":  # names all there are; their states follow
                self.known = {key: known for key, known in self.known.items() if key in set(data["ids"])}
            case "state_changed":
                self.known[data["id"]] = (data["version"], data["status"])
            case "deleted":
                self.known.pop(data["id"], None)


class Sentinel:
    """Invariant 1 at every moment, not only at rest: no workspace ever has two servers."""

    def __init__(self, setup: RuntimeSetup) -> None:
        self._setup = setup
        self._task = asyncio.create_task(self._watch())
        self.looks = 0
        self.seen: list[str] = []

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _watch(self) -> None:
        while True:
            self.seen += await asyncio.to_thread(self._setup.doubled)
            self.looks += 1
            await asyncio.sleep(LOOK_SECONDS)
