"""The frames that ``inside terminal`` and ``inside command`` speak: a kind, a length, as many bytes.

Their other end is ``inside/terminal_frames.go``.

What comes from a workspace is written by anybody: a frame that is too long is an error, and not more than one is kept.
"""

from collections.abc import AsyncIterator
from enum import IntEnum

import structlog

from codehub.runtimes.exec_stream import ExecStream, Stream

log = structlog.get_logger(__name__)

MAX_FRAME_BYTES = 64 * 1024
_HEAD_BYTES = 4


class Sent(IntEnum):
    """Kinds of frames to a terminal or a command."""

    INPUT = ord("i")
    INPUT_END = ord("c")
    RESIZE = ord("r")
    SIGNAL = ord("s")
    HEARTBEAT = ord("h")


class Told(IntEnum):
    """Kinds of frames from a terminal or a command."""

    ATTACHED = ord("a")  # 1: the shell was started just now; recent output follows
    LIVE = ord("l")  # everything further is new
    OUTPUT = ord("o")
    ERRORS = ord("d")  # of a command: its standard error
    TOOK = ord("k")  # of a command: so many bytes of its input
    TAKEN = ord("t")  # the last one: somebody else has attached
    EXIT = ord("x")  # the last one: the shell or the command has ended
    FULL = ord("f")  # the last one: there are too many terminals
    REFUSED = ord("e")  # the last one: why there is no shell, in words


class Nonsense(Exception):
    """Not a frame."""


def pack(kind: Sent, data: bytes = b"") -> bytes:
    return bytes([kind]) + len(data).to_bytes(3, "big") + data


async def frames(stream: ExecStream) -> AsyncIterator[tuple[Told, bytes]]:
    """The frames of a process, until it ends. Raises ``Nonsense``, ``EffectError``."""
    kept = bytearray()
    while (piece := await stream.read()) is not None:
        if piece.stream is Stream.STDERR:
            log.warning("inside complains", said=piece.data[:500].decode("utf-8", "replace").strip())
            continue
        kept += piece.data
        while len(kept) >= _HEAD_BYTES:
            length = int.from_bytes(kept[1:_HEAD_BYTES], "big")
            if length > MAX_FRAME_BYTES:
                raise Nonsense
            if len(kept) < _HEAD_BYTES + length:
                break
            try:
                kind = Told(kept[0])
            except ValueError:
                raise Nonsense from None
            data = bytes(kept[_HEAD_BYTES : _HEAD_BYTES + length])
            del kept[: _HEAD_BYTES + length]
            yield kind, data
