"""A running CodeHub loses its proxy, its database, its breath: people notice little, nobody repairs it."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
import websockets

from tests.support import postgres
from tests.support.instance import Instance, codehub_up, processes_of, proxy_pid, status_of
from tests.support.people import ECHO, QUICK, Person, coordinators, ticks_of
from tests.support.ports import free_port
from tests.support.waiting import until

pytestmark = pytest.mark.timeout(240)

SETTINGS: dict[str, Any] = {**QUICK, "LOCAL_IMAGES": json.dumps({"echo": ECHO})}
IN_FLIGHT = 64
LOAD_REQUESTS = 4000


@pytest.fixture
async def instance(tmp_path: Path) -> AsyncIterator[Instance]:
    bind = f"127.0.0.1:{free_port()}"
    async with codehub_up(tmp_path / "data", bind=bind, **SETTINGS) as running:
        yield running


async def test_a_killed_proxy_comes_back_on_its_port(instance: Instance) -> None:
    async with Person.admin(instance.url) as person:
        workspace_id = await person.running("work")
        async with person.socket(f"/w/{workspace_id}/socket") as tab:
            await tab.send("hello")
            assert await tab.recv() == "hello"
            before = proxy_pid(instance)
            assert before is not None
            os.kill(before, signal.SIGKILL)
            with pytest.raises(websockets.ConnectionClosed):
                await tab.recv()
        # The port was never given up: whoever asks meanwhile waits a moment instead of being refused.
        async with Person.nobody(instance.url) as nobody:
            assert (await nobody.client.get("/health/ready")).status_code == 200
        assert proxy_pid(instance) not in (None, before)
        assert (await person.background(f"/w/{workspace_id}/")).status_code == 200
        async with person.socket(f"/w/{workspace_id}/socket") as tab:
            await tab.send("again")
            assert await tab.recv() == "again"
        assert (await person.workspace(workspace_id))["status"] == "running"


async def test_postgresql_restarts_under_a_running_instance(tmp_path: Path) -> None:
    with postgres.run_server(port=free_port()) as server:
        name = f"chaos_{uuid4().hex}"
        async with postgres.admin_connection(server) as connection:
            await connection.execute(f"CREATE DATABASE {name}")
        data_dir = tmp_path / "data"
        settings = {**SETTINGS, "DATABASE_URL": server.tcp_url(name)}
        async with codehub_up(data_dir, **settings) as instance, Person.admin(instance.url) as person:
            await _survives_a_restart(instance, person, server)
        assert processes_of(data_dir) == {}


async def _survives_a_restart(instance: Instance, person: Person, server: postgres.PostgresServer) -> None:
    url = instance.url
    workspace_id = await person.running("before")
    async with person.socket(f"/w/{workspace_id}/socket") as tab:
        server.stop(signal.SIGQUIT)

        async def not_ready() -> bool:
            return await status_of(f"{url}/health/ready") == 503

        await until(not_ready, seconds=60, what="/health/ready to say 503")
        assert await status_of(f"{url}/health/live") == 200
        # Open connections know nothing of it; new requests are let in from memory or told to come back.
        await tab.send("still here")
        assert await tab.recv() == "still here"
        assert (await person.background(f"/w/{workspace_id}/")).status_code in (200, 503)

        server.start()

        async def ready() -> bool:
            return await status_of(f"{url}/health/ready") == 200

        await until(ready, seconds=60, what="/health/ready to say 200")
        await person.until_open(workspace_id)
        await tab.send("and here")
        assert await tab.recv() == "and here"
    assert (await person.workspace(workspace_id))["status"] == "running"
    for name in ("wc", "observer", "ttl"):
        await ticks_of(url, name, more=2)
    await person.running("after")
    await person.intent(workspace_id, "stop")
    await person.until_status(workspace_id, "standby")


async def test_api_and_coordinators_go_on_under_a_saturated_proxy(instance: Instance) -> None:
    """Only that everything succeeds is asserted; how fast depends on the machine and is printed."""
    async with Person.admin(instance.url) as person:
        workspace_id = await person.running("busy")
        load = _Load(instance.url, [f"/w/{workspace_id}/", "/_codehub/page.js"], person.cookie)
        lags = asyncio.create_task(_tick_lags(instance.url, load.done))
        running = asyncio.create_task(load.run())
        waits = []
        while not load.done.is_set():
            begun = time.monotonic()
            assert (await person.workspace(workspace_id))["status"] == "running"
            waits.append(time.monotonic() - begun)
        await running
        assert load.statuses == {200: LOAD_REQUESTS}
        assert waits, "the API was asked during the load"
        await ticks_of(instance.url, "observer", more=1)
        p99 = sorted(waits)[int(len(waits) * 0.99)]
        rate = LOAD_REQUESTS / load.seconds
        lag = max(await lags, default=0.0)
        print(
            f"\nproxy {rate:.0f} req/s with {IN_FLIGHT} in flight; API {len(waits)} calls, "
            f"p99 {1000 * p99:.0f} ms; longest pause between ticks of the TTL manager {lag:.1f} s"
        )


class _Load:
    """A fixed number of requests, a fixed number of them at a time."""

    def __init__(self, url: str, paths: list[str], cookie: str) -> None:
        self._url = urlsplit(url)
        self._paths = paths
        self._cookie = cookie
        self._left = LOAD_REQUESTS
        self.statuses: dict[int, int] = {}
        self.seconds = 0.0
        self.done = asyncio.Event()

    async def run(self) -> None:
        begun = time.monotonic()
        try:
            await asyncio.gather(*(self._ask(number) for number in range(IN_FLIGHT)))
        finally:
            self.seconds = time.monotonic() - begun
            self.done.set()

    async def _ask(self, number: int) -> None:
        path = self._paths[number % len(self._paths)]
        reader, writer = await asyncio.open_connection(self._url.hostname, self._url.port)
        request = f"GET {path} HTTP/1.1\r\nHost: {self._url.netloc}\r\nCookie: {self._cookie}\r\n\r\n"
        while self._left > 0:
            self._left -= 1
            writer.write(request.encode())
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
            status = int(head.split(b" ", 2)[1])
            self.statuses[status] = self.statuses.get(status, 0) + 1
        writer.close()


async def _tick_lags(url: str, done: asyncio.Event) -> list[float]:
    """How long the TTL manager was seen not to tick, again and again until the load is over."""
    lags: list[float] = []
    seen, since = None, time.monotonic()
    while not done.is_set():
        tick = (await coordinators(url))["ttl"]["last_tick_at"]
        if tick != seen:
            lags.append(time.monotonic() - since)
            seen, since = tick, time.monotonic()
        await asyncio.sleep(0.02)
    return lags
