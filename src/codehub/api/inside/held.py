"""Keep what a response needs open until it has been sent."""

from contextlib import AsyncExitStack

import structlog
from fastapi import Response
from starlette.types import Receive, Scope, Send

from codehub.api.problems import Refused

log = structlog.get_logger(__name__)


class Held(Response):
    """A response whose resources are closed after it, however it ends.

    What is refused in the middle of it cuts the connection: the response has no end, and nobody takes a part for the
    whole.
    """

    def __init__(self, response: Response, resources: AsyncExitStack) -> None:
        self._response = response
        self._resources = resources
        self.status_code = response.status_code
        self.background = None
        self.raw_headers = response.raw_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with self._resources:
                await self._response(scope, receive, send)
        except Refused as refused:
            log.info("a response was cut", path=scope["path"], why=str(refused))
