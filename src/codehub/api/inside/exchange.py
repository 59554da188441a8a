"""Speak with ``inside request`` in a workspace: one request, one answer, data in either direction.

The first line sent is the request; frames follow it (``inside/request.go``). A heartbeat every few seconds tells that
CodeHub still lives: without it ``inside`` ends what it does, also where an engine does not tell that we are gone.

What comes back is written in the workspace, by anybody: it is never trusted. A line longer than allowed, no line in
time, fields of another kind, fewer or more bytes than announced are all one error, and nothing is kept in memory
beyond one piece.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from pydantic import ValidationError

from codehub.api.dependencies import InsideAccess
from codehub.api.problems import Refused
from codehub.api.schemas.files import InsideAnswer
from codehub.domain.errors import EffectError
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.exec_stream import NOT_FOUND, ExecStream, Stream

HEARTBEAT = b"\xff\xff\xff\xff"
HEARTBEAT_SECONDS = 15.0
FRAME_BYTES = 64 * 1024
MAX_ANSWER_BYTES = 8 * 1024 * 1024
ANSWER_SECONDS = 8.0
STORE_SECONDS = 50.0
"""After the last byte of an upload: until it is on the disk."""
CLOSE_SECONDS = 5.0
"""``inside`` gives what it started 2 s between SIGTERM and SIGKILL."""

PROBLEMS = {
    "not_found": "file_not_found",
    "conflict": "file_conflict",
    "refused": "file_refused",
    "no_space": "no_space",
    "too_large": "too_large",
    "busy": "busy",
    "no_process": "not_found",
    "not_started": "not_started",
}


class Exchange:
    """One request under way."""

    def __init__(self, stream: ExecStream) -> None:
        self.stream = stream
        self._sending = asyncio.Lock()
        self._rest = b""

    async def send(self, data: bytes) -> None:
        """Send data as frames; waits while it is not taken."""
        for begin in range(0, len(data), FRAME_BYTES):
            piece = data[begin : begin + FRAME_BYTES]
            async with self._sending:
                await self.stream.write(len(piece).to_bytes(4, "big") + piece)

    async def end_data(self) -> None:
        """Say that the data is complete. Without this nothing is kept of it."""
        async with self._sending:
            await self.stream.write(b"\0\0\0\0")

    async def beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_SECONDS)
            async with self._sending:
                await self.stream.write(HEARTBEAT)

    async def answer_while(self, pieces: AsyncIterator[bytes]) -> InsideAnswer:
        """Send data, and the answer. One that comes before all was sent, a refusal, ends the sending."""
        answering = asyncio.create_task(self.answer(seconds=None))
        sending = asyncio.create_task(self._send_all(pieces))
        try:
            await asyncio.wait({answering, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                await sending
                async with asyncio.timeout(STORE_SECONDS):
                    return await answering
            return await answering
        except TimeoutError:
            raise Refused("unavailable", "The workspace does not answer.") from None
        finally:
            await cancel_and_wait([sending, answering])

    async def _send_all(self, pieces: AsyncIterator[bytes]) -> None:
        async for piece in pieces:
            await self.send(piece)
        await self.end_data()

    async def answer(self, *, seconds: float | None = ANSWER_SECONDS) -> InsideAnswer:
        """The answer's line. Raises ``Refused`` with what ``inside`` refuses, or because it makes no sense."""
        try:
            async with asyncio.timeout(seconds):
                line = await self._line()
        except TimeoutError:
            raise Refused("unavailable", "The workspace does not answer.") from None
        try:
            answer = InsideAnswer.model_validate_json(line)
        except ValidationError:
            raise _nonsense() from None
        if answer.error is not None:
            raise Refused(PROBLEMS.get(answer.error, "file_conflict"), answer.message[:500])
        return answer

    async def data(self, length: int) -> AsyncIterator[bytes]:
        """The bytes after the answer, exactly as many."""
        while length > 0:
            piece = await self._some(length)
            length -= len(piece)
            yield piece

    async def framed_data(self) -> AsyncIterator[bytes]:
        """The bytes after the answer, in frames, until the one that ends them."""
        while length := int.from_bytes(await self._exactly(4), "big"):
            async for piece in self.data(length):
                yield piece

    async def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            found += await self._some(count - len(found))
        return found

    async def _some(self, most: int) -> bytes:
        """At least one byte, at most so many. Raises if there are no more."""
        piece = self._rest or await self._read()
        if not piece:
            raise _nonsense()
        self._rest = piece[most:]
        return piece[:most]

    async def _line(self) -> bytes:
        found = b""
        while b"\n" not in found:
            piece = await self._read()
            if piece is None:
                ended = await self.stream.wait()
                if ended.code == NOT_FOUND:
                    raise Refused(
                        "unavailable",
                        "The workspace was started without what this needs: stop and start it once.",
                    )
                raise _nonsense()
            found += piece
            if len(found) > MAX_ANSWER_BYTES:
                raise _nonsense()
        line, _, self._rest = found.partition(b"\n")
        return line

    async def _read(self) -> bytes | None:
        """The next piece of standard output; what comes on standard error is dropped."""
        while (piece := await self.stream.read()) is not None:
            if piece.stream is Stream.STDOUT:
                return piece.data
        return None


@asynccontextmanager
async def exchange(
    access: InsideAccess, workspace_id: UUID, request: Mapping[str, Any]
) -> AsyncIterator[Exchange]:
    """Send a request. Leaving ends it: what it started is killed, what it wrote in part is removed."""
    try:
        stream = await access.request(workspace_id)
    except EffectError as error:
        raise Refused("unavailable", f"The workspace cannot be reached: {error.message}") from error
    opened = Exchange(stream)
    beating: asyncio.Task[None] | None = None
    try:
        await stream.write(json.dumps(request).encode() + b"\n")
        beating = asyncio.create_task(opened.beat())
        yield opened
    except EffectError as error:
        raise Refused("unavailable", f"The workspace cannot be reached: {error.message}") from error
    finally:
        if beating is not None:
            await cancel_and_wait([beating])
        await stream.close(grace_seconds=CLOSE_SECONDS)


def _nonsense() -> Refused:
    return Refused("unavailable", "The workspace answered something else, or stopped in the middle.")
