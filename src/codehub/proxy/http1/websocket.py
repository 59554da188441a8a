"""Follow the frames of a WebSocket (RFC 6455, 5.2), and write a close frame.

The proxy carries frames without reading them. It has something of its own to say only when it ends, and that is
possible between two messages only: inside of a frame it would be taken for a part of the payload, and between the
frames of one message clients call it an error, although the RFC allows control frames there.
"""

import os
import struct

_MAX_HEAD = 14
_CLOSE = 8
_RESERVED = frozenset({3, 4, 5, 6, 7, 11, 12, 13, 14, 15})


class FramePosition:
    """Where one direction of a WebSocket is in its frames.

    ``lost``: the bytes are no frames, so nobody knows where one begins. ``fragmented``: more frames belong to the
    message. ``closed``: a close frame has begun, the last of its sender.
    """

    __slots__ = ("_head", "closed", "fragmented", "left", "lost")

    def __init__(
        self,
        *,
        left: int = 0,
        head: bytes = b"",
        lost: bool = False,
        fragmented: bool = False,
        closed: bool = False,
    ) -> None:
        self.left = left  # bytes of the current payload still to come
        self._head = head  # an unfinished one
        self.lost = lost
        self.fragmented = fragmented
        self.closed = closed

    @property
    def between_messages(self) -> bool:
        return not (self.left or self._head or self.fragmented or self.lost)

    def follow(self, data: bytes) -> None:
        """Go on over ``data``."""
        at, size = 0, len(data)
        # Pays for: WebSocket echo, where there is no relay. Most messages are one small frame that comes whole.
        if self.between_messages and size >= 2 and 0x80 <= data[0] & 0x8F <= 0x82:
            length = data[1] & 0x7F
            if length < 126 and size == length + (6 if data[1] & 0x80 else 2):
                return
        while at < size and not self.lost:
            at = self._step(data, at)

    def follow_to_end_of_message(self, data: bytes) -> int:
        """Go on to the end of the current message; return how many bytes belong to it. 0: none has begun."""
        at, size = 0, len(data)
        while at < size and not self.lost and not self.between_messages:
            at = self._step(data, at)
        return at

    def _step(self, data: bytes, at: int) -> int:
        """Go on over a payload or a head that begins at ``at``; return where it ends."""
        if self.left:
            step = min(self.left, len(data) - at)
            self.left -= step
            return at + step
        held = len(self._head)
        head = self._head + data[at : at + _MAX_HEAD - held]
        size = _size_of_head(head)
        if len(head) < size:
            self._head = head
            return len(data)
        self._head = b""
        self._begin(head)
        return at + size - held

    def _begin(self, head: bytes) -> None:
        opcode, length = head[0] & 0x0F, head[1] & 0x7F
        if length >= 126:
            length = int.from_bytes(head[2 : 4 if length == 126 else 10])
        self.left = length
        if opcode in _RESERVED or length >> 63:
            self.lost = True
        if opcode == _CLOSE:
            self.closed = True
        if opcode <= _CLOSE:  # pings and pongs may come between the frames of a message
            self.fragmented = opcode < _CLOSE and not head[0] & 0x80


def _size_of_head(head: bytes) -> int:
    """Size of a head, as far as its first two bytes tell."""
    if len(head) < 2:
        return 2
    length = head[1] & 0x7F
    return 2 + (2 if length == 126 else 8 if length == 127 else 0) + (4 if head[1] & 0x80 else 0)


def close_frame(code: int, reason: str, *, masked: bool) -> bytes:
    """A close frame. ``masked``: as a client sends it."""
    payload = struct.pack(">H", code) + reason.encode()
    assert len(payload) < 126
    head = bytes([0x80 | _CLOSE, len(payload) | (0x80 if masked else 0)])
    if not masked:
        return head + payload
    key = os.urandom(4)
    return head + key + bytes(byte ^ key[at % 4] for at, byte in enumerate(payload))
