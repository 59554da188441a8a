"""One command over a WebSocket: input as it comes, both outputs, signals, the size of a terminal, and the end.

Binary messages of the client are standard input. Its text messages are JSON: ``end_input``, ``signal``, ``resize``.
Binary messages to it begin with one byte, 1 for standard output and 2 for standard error; text messages are ``took``
and ``exit``. A client may have 256 KiB of input under way that was not ``took``: a program that waits for its output
to be read does not read its input, and neither end keeps more.
"""

import asyncio
import json
from contextlib import suppress

from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from codehub.api.inside.command import RunningCommand
from codehub.api.inside.command_events import ended, timed_out
from codehub.api.inside.endings import CLOSED, LOST, MISUSED_COMMAND, SessionEnd
from codehub.api.inside.frames import Told
from codehub.api.schemas.commands import MAX_SIZE
from codehub.domain.errors import EffectError
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.exec_stream import TerminalSize

INPUT_WINDOW_BYTES = 256 * 1024
MAX_CONTROL_LENGTH = 256
SIGNALS = frozenset({"HUP", "INT", "QUIT", "TERM", "KILL", "USR1", "USR2"})
_CHANNELS = {Told.OUTPUT: b"\x01", Told.ERRORS: b"\x02"}


class CommandSession:
    """One connection. ``run`` returns how it ended."""

    def __init__(self, socket: WebSocket, running: RunningCommand, *, timeout_seconds: float) -> None:
        self._socket = socket
        self._running = running
        self._timeout_seconds = timeout_seconds
        self._waiting_bytes = 0

    async def run(self) -> SessionEnd:
        """Carry the command until it ends, the client leaves or misbehaves. Raises ``Refused`` if it is cut."""
        passing = asyncio.create_task(self._pass_on())
        receiving = asyncio.create_task(self._receive())
        try:
            await asyncio.wait({passing, receiving}, return_when=asyncio.FIRST_COMPLETED)
            return await (passing if passing.done() else receiving)
        except WebSocketDisconnect:  # it left while something was sent to it
            return LOST
        finally:
            await cancel_and_wait([passing, receiving])

    async def _pass_on(self) -> SessionEnd:
        end = timed_out(self._timeout_seconds)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timeout_seconds):
                async for kind, data in self._running.told():
                    if kind in _CHANNELS:
                        await self._socket.send_bytes(_CHANNELS[kind] + data)
                    elif kind is Told.TOOK:
                        await self._took(int.from_bytes(data, "big"))
                    elif kind is Told.EXIT:
                        end = ended(data[0])
        await self._tell(exit=end)
        return CLOSED

    async def _took(self, count: int) -> None:
        self._waiting_bytes = max(0, self._waiting_bytes - count)
        await self._tell(took=count)

    async def _receive(self) -> SessionEnd:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return LOST
            with suppress(EffectError):  # whoever reads it says so
                if (data := message.get("bytes")) is not None:
                    self._waiting_bytes += len(data)
                    if self._waiting_bytes > INPUT_WINDOW_BYTES:
                        return MISUSED_COMMAND
                    await self._running.send_input(data)
                elif not await self._control(message.get("text") or ""):
                    return MISUSED_COMMAND

    async def _control(self, text: str) -> bool:
        try:
            told = json.loads(text) if len(text) <= MAX_CONTROL_LENGTH else None
        except (ValueError, RecursionError):
            return False
        match told:
            case {"end_input": True}:
                await self._running.end_input()
            case {"signal": str(name)} if name in SIGNALS:
                await self._running.signal(name)
            case {"resize": [int(columns), int(rows)]} if 0 < columns <= MAX_SIZE and 0 < rows <= MAX_SIZE:
                await self._running.resize(TerminalSize(columns, rows))
            case _:
                return False
        return True

    async def _tell(self, **told: object) -> None:
        await self._socket.send_text(json.dumps(told))
