"""Somebody at a terminal of the dashboard: the WebSocket as the page speaks it."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

SECONDS = 120.0


class TerminalClient:
    """An open terminal. What it shows is in ``shown``, all of it since it was attached."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.shown = ""
        self.told: list[dict[str, Any]] = []

    async def type(self, text: str) -> None:
        await self.socket.send(text.encode())

    async def control(self, **told: object) -> None:
        await self.socket.send(json.dumps(told))

    async def take(self) -> None:
        """Take one message, and say that it was shown."""
        async with asyncio.timeout(SECONDS):
            message = await self.socket.recv()
        if isinstance(message, str):
            self.told.append(json.loads(message))
        else:
            self.shown += message.decode("utf-8", "replace")
            await self.control(ack=len(message))

    async def told_of(self, name: str) -> Any:
        """What it is told under this name, once it is."""
        while not any(name in each for each in self.told):
            await self.take()
        return next(each[name] for each in self.told if name in each)

    async def until(self, pattern: str) -> "re.Match[str]":
        """Show output until it matches."""
        while (found := re.search(pattern, self.shown)) is None:
            await self.take()
        return found

    async def shell_pid(self) -> str:
        """The shell's pid, by its own word."""
        self.shown = ""
        await self.type("echo pid=$$.\n")
        return (await self.until(r"pid=(\d+)\."))[1]

    async def closed(self) -> int:
        """The code it is closed with."""
        try:
            while True:
                await self.take()
        except ConnectionClosed:
            assert self.socket.close_code is not None
            return self.socket.close_code


@asynccontextmanager
async def terminal(
    url: str, workspace_id: str, headers: Mapping[str, str], **query: object
) -> AsyncIterator[TerminalClient]:
    """Open a terminal. Raises ``InvalidStatus`` if it is refused."""
    address = f"{url.replace('http', 'ws', 1)}/api/v1/workspaces/{workspace_id}/terminal?{urlencode(query)}"
    async with connect(
        address, additional_headers=dict(headers), proxy=None, open_timeout=SECONDS, compression=None
    ) as socket:
        yield TerminalClient(socket)
