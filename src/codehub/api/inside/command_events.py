"""A command's output and end as server-sent events."""

import asyncio
import base64
import json

from codehub.api.inside.command import RunningCommand
from codehub.api.inside.frames import Told
from codehub.api.live.sse import Write
from codehub.api.live.streams import heartbeat
from codehub.kit.tasks import cancel_and_wait

TIMED_OUT = 124
"""The exit code of a command that took too long, as ``timeout`` has it."""

EXAMPLE = (
    'event: stdout\ndata: {"data": "aGVsbG8K"}\n\n'
    'event: exit\ndata: {"code": 0, "timed_out": false, "message": ""}\n\n'
)
_NAMES = {Told.OUTPUT: "stdout", Told.ERRORS: "stderr"}


class CommandEvents:
    """Writes what a command says. Whoever does not read stops it. ``timeout_seconds`` None: as long as it takes."""

    def __init__(self, running: RunningCommand, *, timeout_seconds: float | None, every: float) -> None:
        self._running = running
        self._timeout_seconds = timeout_seconds
        self._every = every

    async def run(self, write: Write) -> None:
        beating = asyncio.create_task(self._beat(write))
        try:
            async with asyncio.timeout(self._timeout_seconds):
                last = await self._pass_on(write)
        except TimeoutError:
            last = _event("exit", timed_out(self._timeout_seconds))
        finally:
            await cancel_and_wait([beating])
        await write(last)

    async def _pass_on(self, write: Write) -> bytes:
        """Write output; the last event."""
        last = b""
        async for kind, data in self._running.told():
            if kind in _NAMES:
                await write(_event(_NAMES[kind], {"data": base64.b64encode(data).decode()}))
            elif kind is Told.EXIT:
                last = _event("exit", ended(data[0]))
            elif kind is Told.LIVE:
                last = _event("running", {})
        return last

    async def _beat(self, write: Write) -> None:
        while True:
            await asyncio.sleep(self._every)
            await write(heartbeat())


def ended(code: int) -> dict[str, object]:
    return {"code": code, "timed_out": False, "message": ""}


def timed_out(seconds: float | None) -> dict[str, object]:
    return {"code": TIMED_OUT, "timed_out": True, "message": f"Ended after {seconds:g} s."}


def _event(name: str, data: dict[str, object]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
