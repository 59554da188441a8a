"""Server-sent events on the wire: one response that lives until its source ends or its reader has gone.

The reader's going is noticed by a task that waits for it and does nothing else. A reader that does not take
what is written is cut off after a while: its buffer must not grow, and its connection must not stay.
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
    """The reader does not take what is written."""

    code = "reader_stalled"


class EventStream(Response):
    """``source`` writes events until it returns. Cancelled as soon as the reader has gone."""

    media_type = "text/event-stream"

    def __init__(self, source: Source) -> None:
        self._source = source
        self.status_code = 200
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        me = asyncio.current_task()
        assert me is not None
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
            me.cancel()

        watcher = asyncio.create_task(_reader_gone(receive))
        watcher.add_done_callback(stop)
        try:
            # Headers reach the browser at once, however long the first state takes.
            await write(b"retry: %d\n\n" % RETRY_MILLISECONDS)
            await self._source(write)
            await send({"type": "http.response.body", "body": b""})
        except ReaderStalled:
            return  # without an end, so that the server cuts the connection
        except asyncio.CancelledError:
            if not watcher.done():
                raise
            me.uncancel()
        finally:
            watcher.remove_done_callback(stop)
            watcher.cancel()


async def _reader_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
