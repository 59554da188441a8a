"""Serve HTTP with uvicorn in our own event loop; ``main`` decides when it stops."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import uvicorn

from codehub.kit.listening import stop_arrivals
from codehub.server.bind import Bind, explain_bind_error

DRAIN_SECONDS = 5
"""Timeout of responses in progress after a stop. Event streams never end by themselves."""

POLL_EVERY = 0.02
PING_SECONDS = 30.0
"""A WebSocket whose client answers nothing is given up after twice as long. SSH has keep-alives of its own."""


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # main handles signals: the database must not stop before the coordinators

    async def main_loop(self) -> None:
        """Wait without polling: uvicorn's own loop wakes ten times a second."""
        await self.ending.wait()


@contextlib.asynccontextmanager
async def serving(app: Any, *, taken: socket.socket, bind: Bind) -> AsyncIterator[asyncio.Task[None]]:
    """Serve ``app`` on a bound socket; yields the serving task.

    At the end open requests are drained, for at most ``DRAIN_SECONDS``.
    """
    server = _Server(
        uvicorn.Config(
            app,
            http="httptools",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,  # ``api/middleware`` sets it: uvicorn would wake for it without any request
            # The API decides which proxies' forwarded addresses to trust, not uvicorn.
            proxy_headers=False,
            ws="websockets-sansio",
            ws_per_message_deflate=False,  # what SSH carries is encrypted: it does not get smaller
            ws_ping_interval=PING_SECONDS,
            ws_ping_timeout=PING_SECONDS,
            timeout_graceful_shutdown=DRAIN_SECONDS,
        )
    )
    task = asyncio.create_task(server.serve(sockets=[taken]), name="http")
    try:
        while not server.started:
            if task.done():
                await task
                raise RuntimeError("the HTTP server ended before it had started")
            await asyncio.sleep(POLL_EVERY)
        yield task
    except OSError as error:
        # Two processes may bind one port as long as neither listens; the second to listen fails here.
        raise explain_bind_error(error, bind) from error
    finally:
        if server.started:
            await stop_arrivals(taken)
        server.should_exit = True
        server.ending.set()
        await asyncio.gather(task, return_exceptions=True)


async def answers(url: str) -> None:
    """Wait until this address answers 200."""
    async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get(url)).status_code == httpx.codes.OK:
                    return
            await asyncio.sleep(0.1)
