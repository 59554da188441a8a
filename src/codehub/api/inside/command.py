"""Run a command in a workspace by ``inside command``, follow a detached one, or connect to a port: frames both ways.

The end is a frame of its own: a stream without it was cut. ``inside`` stays until CodeHub closes, so that nothing is
lost where an engine drops what was not read yet when a command ends. Closing ends the command and all it started.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from codehub.api.dependencies import InsideAccess
from codehub.api.inside.exchange import ANSWER_SECONDS, CLOSE_SECONDS, HEARTBEAT_SECONDS
from codehub.api.inside.frames import MAX_FRAME_BYTES, Nonsense, Sent, Told, frames, pack
from codehub.api.problems import Refused
from codehub.domain.errors import EffectError
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.exec_stream import ExecStream, TerminalSize

CUT = "The connection to the command was cut."

# What a command says, and how many bytes come with it; None: any number.
_LENGTHS = {Told.OUTPUT: None, Told.ERRORS: None, Told.TOOK: 4, Told.EXIT: 1, Told.LIVE: 0}


class RunningCommand:
    """A command under way. One task reads ``told``; any may send."""

    def __init__(self, stream: ExecStream) -> None:
        self._stream = stream
        self._frames = frames(stream)
        self._sending = asyncio.Lock()

    async def begun(self) -> None:
        """Wait for the first word. Raises ``Refused`` if there is nothing to follow, or nobody who knows how."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                kind, data = await anext(self._frames)
        except TimeoutError:
            raise Refused("unavailable", "The workspace does not answer.") from None
        except (Nonsense, StopAsyncIteration):
            raise Refused(
                "unavailable", "The workspace was started without what this needs: stop and start it once."
            ) from None
        if kind is Told.REFUSED:
            raise Refused("not_found", data[:500].decode("utf-8", "replace"))
        if kind is not Told.ATTACHED:
            raise Refused("unavailable", CUT)

    async def told(self) -> AsyncIterator[tuple[Told, bytes]]:
        """Output, input that was taken, and at last ``EXIT`` or ``LIVE``. Raises ``Refused`` if it is cut."""
        try:
            async for kind, data in self._frames:
                if kind not in _LENGTHS or _LENGTHS[kind] not in (None, len(data)):
                    raise Nonsense
                yield kind, data
                if kind in (Told.EXIT, Told.LIVE):
                    return
        except (Nonsense, EffectError) as error:
            raise Refused("unavailable", CUT) from error
        raise Refused("unavailable", CUT)

    async def send_input(self, data: bytes) -> None:
        for begin in range(0, len(data), MAX_FRAME_BYTES):
            await self._send(Sent.INPUT, data[begin : begin + MAX_FRAME_BYTES])

    async def end_input(self) -> None:
        await self._send(Sent.INPUT_END)

    async def signal(self, name: str) -> None:
        await self._send(Sent.SIGNAL, name.encode())

    async def resize(self, size: TerminalSize) -> None:
        await self._send(Sent.RESIZE, size.columns.to_bytes(2, "big") + size.rows.to_bytes(2, "big"))

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            await self._send(Sent.HEARTBEAT)

    async def _send(self, kind: Sent, data: bytes = b"") -> None:
        async with self._sending:
            await self._stream.write(pack(kind, data))


@asynccontextmanager
async def command(
    access: InsideAccess, workspace_id: UUID, request: Mapping[str, Any]
) -> AsyncIterator[RunningCommand]:
    """Start what a request says. Leaving ends it, and all it started."""
    opening = json.dumps(request).encode() + b"\n"
    async with _running(access.command(workspace_id), opening) as running:
        yield running


@asynccontextmanager
async def port_connection(
    access: InsideAccess, workspace_id: UUID, port: int
) -> AsyncIterator[RunningCommand]:
    """Connect to a port of the workspace's own loopback. Output and input are its bytes; ``EXIT`` 0: it ended."""
    async with _running(access.connect(workspace_id, port), b"") as running:
        yield running


@asynccontextmanager
async def _running(starting: Awaitable[ExecStream], opening: bytes) -> AsyncIterator[RunningCommand]:
    try:
        stream = await starting
    except EffectError as error:
        raise Refused("unavailable", f"The workspace cannot be reached: {error.message}") from error
    running = RunningCommand(stream)
    beating: asyncio.Task[None] | None = None
    try:
        if opening:
            await stream.write(opening)
        beating = asyncio.create_task(running.beat())
        await running.begun()
        yield running
    except EffectError as error:
        raise Refused("unavailable", f"The workspace cannot be reached: {error.message}") from error
    finally:
        if beating is not None:
            await cancel_and_wait([beating])
        await stream.close(grace_seconds=CLOSE_SECONDS)
