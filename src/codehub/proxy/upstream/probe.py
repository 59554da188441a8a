"""Ask an upstream for one response: an open port is not yet an editor that answers.

Servers listen before they can answer, and front ends inside an image answer 502 to 504 while what is behind them
starts. So the waiting page goes on waiting until the IDE's port gives any other response.
"""

import asyncio
from typing import Final

from codehub.proxy.http1.grammar import STATUS_LINE
from codehub.proxy.upstream.pool import UpstreamConnection

_NOT_YET: Final = frozenset({502, 503, 504})
_MAX_STATUS_LINE: Final = 1024


class Probe:
    """One request, of which only the response's first line is read."""

    def __init__(self) -> None:
        self._status: asyncio.Future[int | None] = asyncio.get_running_loop().create_future()
        self._data = b""

    async def answers(self, connection: UpstreamConnection, *, host: bytes, path: bytes) -> bool:
        """Send a GET and wait for its status. Ends with the caller's timeout; always drops the connection."""
        connection.exchange = self
        fields = b"Host: %b\r\nAccept: */*\r\nConnection: close\r\n" % host
        connection.transport.write(b"GET %b HTTP/1.1\r\n%b\r\n" % (path, fields))
        try:
            status = await self._status
        finally:
            connection.drop()
        return status is not None and status not in _NOT_YET

    def upstream_data(self, data: bytes) -> None:
        self._data += data
        line, end, _ = self._data.partition(b"\r\n")
        if end or len(self._data) > _MAX_STATUS_LINE:
            match = STATUS_LINE.fullmatch(line)
            self._set(int(match[2]) if match else None)

    def upstream_eof(self) -> bool:
        return False

    def upstream_full(self, *, full: bool) -> None: ...

    def upstream_lost(self, exc: Exception | None) -> None:
        self._set(None)

    def _set(self, status: int | None) -> None:
        if not self._status.done():
            self._status.set_result(status)
