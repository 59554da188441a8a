"""uvicorn inside our own event loop: it serves, the process's main decides when it stops."""

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
"""How long a response under way may take after the stop. Event streams never end by themselves."""

POLL_EVERY = 0.02


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ending = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are main's: the database must not go before the coordinators have

    async def main_loop(self) -> None:
        """uvicorn's own looks at a flag and at the clock ten times a second, day and night."""
        await self.ending.wait()


@contextlib.asynccontextmanager
async def serving(app: Any, *, taken: socket.socket, bind: Bind) -> AsyncIterator[asyncio.Task[None]]:
    """Serve ``app`` on a bound socket; gives the task that serves. At the end, open requests are drained."""
    server = _Server(
        uvicorn.Config(
            app,
            http="httptools",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,  # the API says it (``api/middleware``): uvicorn would wake for it while nobody asks
            # Whom a forwarded address may be believed from is the API's question, not uvicorn's.
            proxy_headers=False,
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
        # Two processes may bind one port as long as neither listens; the second one to listen learns it here.
        raise explain_bind_error(error, bind) from error
    finally:
        if server.started:
            await stop_arrivals(taken)
        server.should_exit = True
        server.ending.set()
        await asyncio.gather(task, return_exceptions=True)


async def answers(url: str) -> None:
    """Return once this address answers 200."""
    async with httpx.AsyncClient(timeout=5.0, trust_env=False) as client:
        while True:
            with contextlib.suppress(httpx.HTTPError):
                if (await client.get(url)).status_code == httpx.codes.OK:
                    return
            await asyncio.sleep(0.1)
