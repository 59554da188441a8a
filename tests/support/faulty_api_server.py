"""An HTTP proxy in front of a Kubernetes API server that answers as an overloaded one does.

Refuses calls (429, 503), is slow, acts and loses the answer (504), or ends watches with "too old" (410), which comes as
an event of a watch that began well. Clients speak plain HTTP and their own token. It has a thread and an event loop of
its own: blocking tests do not stall it.
"""

import asyncio
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp import web
from yarl import URL

_OWN_HEADERS = {"connection", "content-length", "host", "keep-alive", "transfer-encoding", "upgrade"}
_LARGEST_BYTES = 64 * 1024**2


@dataclass(frozen=True)
class Trouble:
    """``status``: the answer to every call. ``acts``: it is given after the call was carried out."""

    status: int = 0
    acts: bool = False
    delay_seconds: float = 0.0
    expires_watches: bool = False


class FaultyApiServer:
    def __init__(self, upstream: str, tls: ssl.SSLContext) -> None:
        self._upstream = upstream
        self._tls = tls
        self._trouble = Trouble()
        self._watches: set[asyncio.Event] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self.url = ""
        self.troubled = 0  # calls that met trouble

    def begin(self, trouble: Trouble) -> None:
        self._trouble = trouble
        if trouble.expires_watches and self._loop is not None:
            self._loop.call_soon_threadsafe(self._expire_watches)

    def heal(self) -> None:
        self._trouble = Trouble()

    def stop(self) -> None:
        if self._loop is not None and self._stopped is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)

    async def serve(self, ready: threading.Event) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        connector = aiohttp.TCPConnector(limit=0, ssl=self._tls)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as session:
            app = web.Application(client_max_size=_LARGEST_BYTES)

            async def handle(request: web.Request) -> web.StreamResponse:
                return await self._handle(request, session)

            app.router.add_route("*", "/{path:.*}", handle)
            runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
            ready.set()
            await self._stopped.wait()
            await runner.cleanup()

    async def _handle(self, request: web.Request, session: aiohttp.ClientSession) -> web.StreamResponse:
        trouble = self._trouble
        self.troubled += trouble != Trouble()
        body = await request.read()
        if trouble.delay_seconds:
            await asyncio.sleep(trouble.delay_seconds)
        if trouble.status and not trouble.acts:
            return _refusal(trouble.status)
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OWN_HEADERS}
        target = URL(f"{self._upstream}{request.raw_path}", encoded=True)
        try:
            async with session.request(request.method, target, headers=headers, data=body) as answer:
                if trouble.status:
                    await answer.read()
                    return _refusal(trouble.status)
                if request.query.get("watch") and answer.status == web.HTTPOk.status_code:
                    return await self._watch(request, answer, expired=trouble.expires_watches)
                return await _pass_on(request, answer)
        except (aiohttp.ClientError, OSError):
            if request.transport is not None:
                request.transport.abort()  # as the server itself did, or the client
            return _refusal(502)  # which goes nowhere

    async def _watch(
        self, request: web.Request, answer: aiohttp.ClientResponse, *, expired: bool
    ) -> web.StreamResponse:
        response = await _begin(request, answer)
        too_old = asyncio.Event()
        if expired:
            too_old.set()
        self._watches.add(too_old)
        expiring = asyncio.ensure_future(too_old.wait())
        try:
            while not too_old.is_set():
                reading = asyncio.ensure_future(answer.content.readany())
                await asyncio.wait({reading, expiring}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                elif piece := reading.result():
                    await response.write(piece)
                else:
                    break
            if too_old.is_set():
                event = {"type": "ERROR", "object": _status(410)}
                await response.write(json.dumps(event).encode() + b"\n")
            await response.write_eof()
            return response
        finally:
            self._watches.discard(too_old)
            expiring.cancel()

    def _expire_watches(self) -> None:
        for each in self._watches:
            each.set()


async def _pass_on(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = await _begin(request, answer)
    async for piece in answer.content.iter_any():
        await response.write(piece)
    await response.write_eof()
    return response


async def _begin(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    headers = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN_HEADERS}
    response = web.StreamResponse(status=answer.status, headers=headers)
    await response.prepare(request)
    return response


def _refusal(status: int) -> web.Response:
    return web.json_response(_status(status), status=status, headers={"Retry-After": "1"})


def _status(code: int) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": "a test's fault",
    }


@contextmanager
def faulty_api_server(upstream: str, tls: ssl.SSLContext) -> Iterator[FaultyApiServer]:
    """Run one until the block is left."""
    server = FaultyApiServer(upstream, tls)
    ready = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(ready)), daemon=True)
    thread.start()
    assert ready.wait(60)
    try:
        yield server
    finally:
        server.stop()
        thread.join(60)
