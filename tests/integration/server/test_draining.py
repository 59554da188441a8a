"""Ending a process under a stream of new connections: each is refused, or answered; none waits in vain."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.exceptions import ConnectionClosed

from tests.support.instance import Instance, codehub_up, proxy_pids
from tests.support.people import ECHO, QUICK, Person
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

PATIENCE = 60.0
AT_ONCE = 8


class NewConnections:
    """One request on a connection of its own, again and again, from several clients at once."""

    def __init__(self, instance: Instance) -> None:
        self._port = urlsplit(instance.url).port
        self.outcomes: Counter[str] = Counter()

    @asynccontextmanager
    async def streaming(self) -> AsyncIterator[None]:
        stop = asyncio.Event()

        async def client() -> None:
            while not stop.is_set():
                outcome = await self._ask()
                self.outcomes[outcome] += 1
                if outcome == "refused":
                    await asyncio.sleep(0.01)  # nobody is hurt by it; the machine would be

        async with asyncio.TaskGroup() as clients:
            for _ in range(AT_ONCE):
                clients.create_task(client())
            try:
                yield
            finally:
                stop.set()

    async def _ask(self) -> str:
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except ConnectionRefusedError:
            return "refused"
        except TimeoutError:
            return "never connected"
        try:
            async with asyncio.timeout(PATIENCE):
                writer.write(b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                head = await reader.readuntil(b"\r\n\r\n")
                await reader.read()
                return "answered" if head.startswith(b"HTTP/1.1 200") else head.decode().splitlines()[0]
        except TimeoutError:
            return "never answered"
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            return f"broken off: {error!r}"
        finally:
            writer.close()

    async def until_more(self, outcome: str, *, more: int = 100) -> None:
        wanted = self.outcomes[outcome] + more

        async def came() -> bool:
            return self.outcomes[outcome] >= wanted

        await until(came, seconds=PATIENCE, what=f"{more} more connections {outcome}")


@pytest.mark.parametrize(
    "settings",
    [
        {"CODEHUB_PROXY_PROCESSES": "1"},
        {"CODEHUB_PROXY_PROCESSES": "2"},
        {"CODEHUB_ROLES": "api,coordinators"},
    ],
    ids=["one proxy", "two proxies", "no proxy"],
)
async def test_a_replica_that_ends_refuses_or_answers_each_connection(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with codehub_up(tmp_path / "data", **settings) as instance:
        connections = NewConnections(instance)
        async with connections.streaming():
            await connections.until_more("answered")
            assert await instance.end(signal.SIGTERM) == 0
            await connections.until_more("refused")
    assert set(connections.outcomes) == {"answered", "refused"}, connections.outcomes


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_proxy_that_ends_leaves_its_connections_to_the_next(tmp_path: Path, processes: str) -> None:
    async with codehub_up(tmp_path / "data", CODEHUB_PROXY_PROCESSES=processes) as instance:
        connections = NewConnections(instance)
        async with connections.streaming():
            await connections.until_more("answered")
            first = proxy_pids(instance)[0]
            os.kill(first, signal.SIGTERM)

            async def replaced() -> bool:
                now = proxy_pids(instance)
                return first not in now and len(now) == int(processes)

            await until(replaced, seconds=PATIENCE, what="another proxy")
            await connections.until_more("answered")
    assert set(connections.outcomes) == {"answered"}, connections.outcomes


async def test_open_websockets_and_event_streams_are_told(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**QUICK, "LOCAL_IMAGES": json.dumps({"echo": ECHO})}
    async with codehub_up(tmp_path / "data", **settings) as instance, Person.admin(instance.url) as person:
        workspace_id = await person.running("open")
        async with (
            person.socket(f"/w/{workspace_id}/socket") as tab,
            person.client.stream("GET", "/api/v1/events") as events,
        ):
            await tab.send("hi")
            assert await tab.recv() == "hi"
            lines = events.aiter_lines()
            assert (await anext(lines)).startswith("retry:")
            ending = asyncio.create_task(instance.end(signal.SIGTERM))
            with pytest.raises(ConnectionClosed):
                await tab.recv()
            assert tab.close_code == 1001
            async for _ in lines:
                pass  # to its end: one that is broken off raises
        assert await ending == 0
