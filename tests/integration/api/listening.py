"""A reader of event streams, and the stretch from PostgreSQL to Redis that feeds them."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from codehub.kit.tasks import cancel_and_wait
from codehub.signals.live import LivePublisher
from codehub.signals.notify import ChangeListener, FeedLost
from tests.support.waiting import until


@dataclass(frozen=True)
class Event:
    name: str
    id: str | None
    data: Any


@dataclass
class Listener:
    """What a browser knows: all events so far, and the workspaces as merged from them."""

    events: list[Event] = field(default_factory=list)
    workspaces: dict[str, dict[str, Any]] = field(default_factory=dict)
    ended: bool = False

    def names(self) -> list[str]:
        return [event.name for event in self.events]

    def named(self, name: str) -> list[Event]:
        return [event for event in self.events if event.name == name]

    def take(self, event: Event) -> None:
        self.events.append(event)
        match event.name:
            case "snapshot":
                kept = set(event.data["ids"])
                self.workspaces = {key: ws for key, ws in self.workspaces.items() if key in kept}
            case "state_changed":
                self.workspaces[event.data["id"]] = event.data
            case "activity":
                if event.data["id"] in self.workspaces:
                    self.workspaces[event.data["id"]]["activity"] = event.data["activity"]
            case "deleted":
                self.workspaces.pop(event.data["id"], None)

    async def until(self, count: int, name: str, *, seconds: float = 20.0) -> Event:
        """The ``count``-th event of this name."""

        async def there() -> bool:
            return len(self.named(name)) >= count

        try:
            await until(there, seconds=seconds, what=f"{count} × {name}")
        except AssertionError as error:
            raise AssertionError(f"{error}; heard {self.names()}") from error
        return self.named(name)[count - 1]

    async def until_ended(self, *, seconds: float = 20.0) -> None:
        async def ended() -> bool:
            return self.ended

        await until(ended, seconds=seconds, what="end of the stream")


@asynccontextmanager
async def listening(client: httpx.AsyncClient, url: str) -> AsyncIterator[Listener]:
    """Read ``url`` on a real connection, with the cookies and headers of ``client``."""
    listener = Listener()
    async with httpx.AsyncClient(headers=client.headers, cookies=client.cookies, timeout=None) as reader:
        task = asyncio.create_task(_read(reader, url, listener))
        try:
            yield listener
        finally:
            await cancel_and_wait([task])


async def _read(reader: httpx.AsyncClient, url: str, listener: Listener) -> None:
    try:
        # The cookie jar would not send a cookie of another host name.
        headers = {"Cookie": "; ".join(f"{key}={value}" for key, value in reader.cookies.items())}
        async with reader.stream("GET", url, headers=headers if reader.cookies else None) as answer:
            assert answer.status_code == 200, await answer.aread()
            assert answer.headers["content-type"].startswith("text/event-stream")
            fields: dict[str, str] = {}
            async for line in answer.aiter_lines():
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    continue
                if "event" in fields:
                    listener.take(Event(fields["event"], fields.get("id"), json.loads(fields["data"])))
                fields = {}
    except httpx.HTTPError:
        pass
    finally:
        listener.ended = True


@asynccontextmanager
async def change_feed(database_url: str, publisher: LivePublisher) -> AsyncIterator[None]:
    """The event listener's work in short: NOTIFY → Redis, and a resync after every gap.

    It listens, and its first resync is out, before anybody reads; otherwise a change may come before that.
    """
    listens = asyncio.Event()
    task = asyncio.create_task(_forward(database_url, publisher, listens))
    try:
        await listens.wait()
        yield
    finally:
        await cancel_and_wait([task])


async def _forward(database_url: str, publisher: LivePublisher, listens: asyncio.Event) -> None:
    while True:
        listener = ChangeListener()
        with contextlib.suppress(FeedLost):
            await listener.open(database_url)
            owed = True
            while True:
                if owed:
                    owed = not await publisher.publish_resync()
                    listens.set()
                batch = await listener.next_batch(timeout=0.1)
                owed = not await publisher.publish_changes(batch) or owed
        await listener.close()
        await asyncio.sleep(0.05)
