"""Send an archive, or files of it, to a client: cut short if it may not, or cannot, be read to its end.

A store that fails in the middle, a reader who stalls and one whose rights end get fewer bytes than the header promised,
or no last piece, which no client takes for the whole.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from uuid import UUID

import structlog
from fastapi import Response
from starlette.types import Receive, Scope, Send

from codehub.api import problems
from codehub.api.live.revocation import StreamRevoker
from codehub.domain.errors import CodeHubError
from codehub.kit.tasks import cancel_and_wait
from codehub.services.identity import Principal

log = structlog.get_logger(__name__)

AT_ONCE = 8
"""Downloads of one API process. Each reads up to 16 MiB ahead of its client."""
AT_ONCE_EACH = 2
STALLED_SECONDS = 60.0
_SLICE = 256 * 1024


class Downloads:
    """Counts the downloads of one process, and ends those whose reader lost the right to them."""

    def __init__(self, revoker: StreamRevoker) -> None:
        self._revoker = revoker
        self._open: list[UUID] = []

    @contextmanager
    def place(self, caller: Principal, end: Callable[[], None]) -> Iterator[None]:
        """Hold one of the places. Raises ``downloads_busy``. ``end`` is called when the caller is revoked."""
        user_id = caller.user.id
        if len(self._open) >= AT_ONCE or self._open.count(user_id) >= AT_ONCE_EACH:
            raise problems.Refused("downloads_busy")
        self._open.append(user_id)
        try:
            with self._revoker.watching(caller, end):
                yield
        finally:
            self._open.remove(user_id)


class Download(Response):
    """A response that sends ``pieces``, which have ``size`` bytes together. None: it is not known before."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        *,
        size: int | None,
        headers: Mapping[str, str],
        caller: Principal,
        downloads: Downloads,
    ) -> None:
        self._pieces = pieces
        self._caller = caller
        self._downloads = downloads
        self.status_code = 200
        self.background = None
        length = {} if size is None else {"Content-Length": str(size)}
        self.init_headers({**headers, **length, "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(scope, receive, send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait([sending, leaving])
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send(self, scope: Scope, receive: Receive, send: Send) -> None:
        task = asyncio.current_task()
        assert task is not None
        begun = False

        def end() -> None:
            task.cancel()

        try:
            async with aclosing(self._pieces) as pieces:
                with self._downloads.place(self._caller, end):
                    async for piece in pieces:
                        if not begun:  # only now: a store that is away is a 503
                            await send(self._start())
                            begun = True
                        await _send_piece(send, piece)
        except (CodeHubError, TimeoutError) as error:
            if begun:  # without a last piece: the server aborts the connection
                log.warning("a download was cut short", error=str(error) or "its reader has stalled")
            elif isinstance(error, CodeHubError):
                await problems.of_error(error)(scope, receive, send)
            else:
                raise
        else:
            if not begun:  # an empty file
                await send(self._start())
            await send({"type": "http.response.body", "body": b""})

    def _start(self) -> dict[str, object]:
        return {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}


async def _send_piece(send: Send, piece: bytes) -> None:
    """Send a piece in slices: a slow reader takes one within the time, or has stalled."""
    for start in range(0, len(piece), _SLICE):
        async with asyncio.timeout(STALLED_SECONDS):
            body = piece[start : start + _SLICE]
            await send({"type": "http.response.body", "body": body, "more_body": True})


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
