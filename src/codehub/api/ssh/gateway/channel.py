"""A client of an SSH session behind a channel of the gateway, as ``ssh -J`` opens it."""

import asyncio
from collections.abc import Callable

import asyncssh
import structlog

from codehub.api.inside.endings import CLOSED, LOST, NO_TUNNEL, SessionEnd
from codehub.api.ssh.admission import Admitted, carry
from codehub.api.ssh.gateway.connection import GatewayConnection
from codehub.kit.tasks import cancel_and_wait
from codehub.store.errors import DATABASE_FAILED

log = structlog.get_logger(__name__)

MAX_WAITING = 256 * 1024
"""Bytes of the client that wait here; then its channel is not read from, and its window ends."""


class ChannelClient(asyncssh.SSHTCPSession[bytes]):
    """One channel. asyncssh calls its methods; ``on_end`` is told when it has ended, and why."""

    def __init__(
        self,
        connection: GatewayConnection,
        admitted: Admitted,
        on_end: Callable[["ChannelClient", SessionEnd], None],
    ) -> None:
        self._connection = connection
        self._admitted = admitted
        self._on_end = on_end
        self._channel: asyncssh.SSHTCPChannel[bytes] | None = None
        self._task: asyncio.Task[None] | None = None
        self._waiting = bytearray()
        self._news = asyncio.Event()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._left: SessionEnd | None = None

    # What asyncssh calls ----------------------------------------------------------------------------

    def connection_made(self, chan: asyncssh.SSHTCPChannel[bytes]) -> None:
        self._channel = chan

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._carry(), name="ssh-channel")

    def data_received(self, data: bytes, datatype: int | None) -> None:
        self._waiting += data
        self._news.set()
        if len(self._waiting) > MAX_WAITING and self._channel is not None:
            self._channel.pause_reading()

    def eof_received(self) -> bool:
        self._leave(CLOSED)
        return True  # the session closes the channel

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._leave(CLOSED if exc is None else LOST)

    # What the session calls ---------------------------------------------------------------------------

    async def receive(self) -> bytes | SessionEnd:
        while not self._waiting:
            if self._left is not None:
                return self._left
            self._news.clear()
            await self._news.wait()
        data = bytes(self._waiting)
        self._waiting.clear()
        if self._channel is not None and self._left is None:
            self._channel.resume_reading()
        return data

    async def send(self, data: bytes) -> None:
        await self._can_write.wait()
        await self._connection.can_write.wait()
        if self._left is None and self._channel is not None:
            self._channel.write(data)

    async def tell(self, status: str) -> None:
        """Shown by ``ssh -v``: SSH has no other message for this."""
        if self._left is None:
            self._connection.send_debug(f"the workspace is {status}", always_display=True)

    # Its end ------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the channel, after what was sent."""
        if self._channel is not None:
            self._channel.close()

    async def stop(self) -> None:
        """End the session now."""
        if self._task is not None:
            await cancel_and_wait([self._task])

    def _leave(self, end: SessionEnd) -> None:
        self._left = self._left or end
        self._news.set()
        self._can_write.set()

    async def _carry(self) -> None:
        end = NO_TUNNEL
        try:
            end = await carry(self, self._admitted, keep=False)
        except DATABASE_FAILED as error:
            log.warning(
                "ssh session failed", workspace_id=str(self._admitted.record.view.id), error=str(error)
            )
        finally:
            self._on_end(self, end)
