"""Write server-sent events until the source ends or the client leaves.

A task of its own waits for the client to disconnect. A client that does not read for 30 s is disconnected, so
that neither its buffer nor its connection is held for ever.
"""

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import Response
from starlette.types import Receive, Scope, Send

from codehub.domain.errors import CodeHubError

Write = Callable[[bytes], Awaitable[None]]
Source = Callable[[Write], Awaitable[None]]

DRAIN_SECONDS = 30.0
RETRY_MILLISECONDS = 1000


class ReaderStalled(CodeHubError):
    """The client did not read what was written within ``DRAIN_SECONDS``."""

    code = "reader_stalled"


class EventStream(Response):
    """A response that ``source`` writes.

    The source is cancelled when the client leaves.
    """

    media_type = "text/event-stream"

    def __init__(self, source: Source) -> None:
        self._source = source
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

        async def write(data: bytes) -> None:
            if not data:
                return
            try:
                async with asyncio.timeout(DRAIN_SECONDS):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            except TimeoutError:
                raise ReaderStalled("the reader does not take what is written") from None

        def stop(_: object) -> None:
            task.cancel()

        watcher = asyncio.create_task(_wait_for_disconnect(receive))
        watcher.add_done_callback(stop)
        try:
            # Written first, so that the browser gets headers before the snapshot is read.
            await write(b"retry: %d\n\n" % RETRY_MILLISECONDS)
            await self._source(write)
            await send({"type": "http.response.body", "body": b""})
        except ReaderStalled:
            return  # without a final chunk, so that the server aborts the connection
        except asyncio.CancelledError:
            if not watcher.done():
                raise
            task.uncancel()
        finally:
            watcher.remove_done_callback(stop)
            watcher.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
