"""Tell both ends of an open WebSocket that the proxy ends: a close frame with code 1001 ("going away").

``Tunnel.go_away`` calls this when the proxy drains. Each end goes on sending to the other up to the end of its current
message, and no further. When neither is in the middle of one, both get the close frame: an end that was told earlier
might not finish its own. An end is closed when it has answered with its close frame, or after ``seconds``. One that
never finishes its message is aborted when the time to drain is over: the reader sees a broken connection, never a frame
with something else inside.
"""

import asyncio
from typing import Protocol

from codehub.proxy.http1.websocket import FramePosition, close_frame

GOING_AWAY = 1001
REASON = "This CodeHub process ends: connect again."


class LeavingSide(Protocol):
    """One of the two connections."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def connection_lost(self, exc: Exception | None) -> None: ...


def go_away(
    client: LeavingSide,
    upstream: LeavingSide,
    positions: tuple[FramePosition, FramePosition],
    *,
    seconds: float,
) -> None:
    """Take over both transports. ``positions``: of what the client sends, and the upstream; neither is lost."""
    ends = (
        _LeavingEnd(client, positions[0], masked=False, seconds=seconds),
        _LeavingEnd(upstream, positions[1], masked=True, seconds=seconds),
    )
    ends[0].peer, ends[1].peer = ends[1], ends[0]
    for end in ends:
        end.transport.set_protocol(end)
    for end in ends:
        end.stop_between_messages()


class _LeavingEnd(asyncio.Protocol):
    """Protocol of one end's transport. Frames towards an upstream are masked."""

    peer: "_LeavingEnd"

    def __init__(self, side: LeavingSide, position: FramePosition, *, masked: bool, seconds: float) -> None:
        self.transport = side.transport
        self._side = side
        self._position = position  # in what this end sends
        self._masked = masked
        self._seconds = seconds
        self._forwards = True  # the peer has a part of a message, and gets the rest
        self._is_told = False
        self._deadline: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        if self._forwards:
            size = self._position.follow_to_end_of_message(data)
            self.peer.transport.write(data[:size])
            data = data[size:]
            self.stop_between_messages()
        self._position.follow(data)
        if self._position.lost:
            self.transport.abort()
        else:
            self._close_if_answered()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        peer = self.peer
        peer._forwards = False
        if self._forwards:  # the peer has half a message, and cannot be told
            self._forwards = False
            peer.transport.abort()
        elif not peer._is_told:
            peer._tell()
        self._side.connection_lost(exc)

    def pause_writing(self) -> None:
        if self.peer._forwards:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def stop_between_messages(self) -> None:
        """Stop forwarding what this end sends, unless the peer has a part of a message."""
        if not self._position.between_messages:
            return
        self._forwards = False
        if not self.transport.is_closing():
            self.transport.resume_reading()  # for its answer; nothing of it fills a buffer any more
        if not self.peer._forwards:
            self.peer._tell()
            self._tell()

    def _tell(self) -> None:
        """Write the close frame, unless the peer has sent one itself, which this end has got as well."""
        if self.transport.is_closing():
            return
        if not self.peer._position.closed:
            self.transport.write(close_frame(GOING_AWAY, REASON, masked=self._masked))
        self._is_told = True
        self._deadline = asyncio.get_running_loop().call_later(self._seconds, self.transport.close)
        self._close_if_answered()

    def _close_if_answered(self) -> None:
        if self._is_told and self._position.closed and self._position.between_messages:
            self.transport.close()
