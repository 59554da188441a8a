"""Relay open WebSockets in a C thread (``relay.c``), without the event loop.

Small messages cost mostly kernel time; Python and the event loop add a quarter to it. The library is built with
the package where there is a C compiler (``hatch_build.py``). Where it was not built or cannot be loaded,
``open`` returns None and the event loop relays every byte itself: slower, with the same behaviour.

The thread handles the simple case only. When an end of a pair closes, breaks or has a full send buffer, the
thread returns the pair to the event loop (``on_returned``), with the bytes it has read and not yet written.
"""

import asyncio
import ctypes
import functools
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from codehub.proxy.http1.websocket import FramePosition

LIBRARY = Path(__file__).with_name("_relay.so")


@dataclass(frozen=True)
class Left:
    """State of a returned pair: bytes not yet written to each end, unreadable ends."""

    data: tuple[bytes, bytes]
    broken: tuple[bool, bool]


OnReturned = Callable[[Left], None]


class Frames(ctypes.Structure):
    """Where one direction of a WebSocket is in its frames: ``struct frames`` in ``relay.c``."""

    left: int
    head_size: int
    lost: int
    fragmented: int
    closed: int

    _fields_ = (
        ("left", ctypes.c_uint64),
        ("head", ctypes.c_uint8 * 14),
        ("head_size", ctypes.c_uint8),
        ("lost", ctypes.c_uint8),
        ("fragmented", ctypes.c_uint8),
        ("closed", ctypes.c_uint8),
    )

    def position(self) -> FramePosition:
        """Copy it, for the event loop. Call it when the relay does not carry the tunnel."""
        return FramePosition(
            left=self.left,
            head=bytes(self.head[: self.head_size]),
            lost=bool(self.lost),
            fragmented=bool(self.fragmented),
            closed=bool(self.closed),
        )


class Meter(ctypes.Structure):
    """Follows the frames of one WebSocket: when was the last input of a person, and where do frames begin.

    The fields are those of ``struct meter`` in ``relay.c``, which says what counts as input. The relay writes them
    in its thread; ``input_at`` is one aligned word, so reading it needs no call and no lock.
    """

    input_at: int
    opened_at: int
    sent: Sequence[Frames]

    _fields_ = (
        ("input_at", ctypes.c_int64),
        ("opened_at", ctypes.c_int64),
        ("recent", ctypes.c_int64 * 2),
        ("sent", Frames * 2),  # by the client and by the workspace
    )

    @classmethod
    def begin(cls) -> "Meter":
        return cls(opened_at=time.monotonic_ns())


class Relay:
    """The relay thread of one event loop.

    If the process dies, the kernel closes its sockets.
    """

    def __init__(self, library: ctypes.CDLL, loop: asyncio.AbstractEventLoop) -> None:
        self._library = library
        self._loop = loop
        # With their meters: the thread writes to them, so they must not be freed before.
        self._carried: dict[int, tuple[OnReturned, Meter]] = {}
        # Each pair costs two more descriptors. The last quarter of the limit is reserved for new connections.
        self._highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4
        self._handle = library.relay_open()
        if not self._handle:
            raise OSError("no thread or descriptors for a relay")
        loop.add_reader(library.relay_news(self._handle), self._on_pairs_aside)

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop) -> "Relay | None":
        """Start a relay thread. None: no library, no thread or no descriptors."""
        library = load()
        if library is None:
            return None
        try:
            return cls(library, loop)
        except OSError:
            return None

    def __len__(self) -> int:
        """The number of pairs it carries."""
        return len(self._carried)

    def count(self, meter: Meter, data: bytes) -> None:
        """Count bytes of the client that the event loop relays itself."""
        self._library.relay_count(ctypes.byref(meter), data, len(data))

    def follow(self, meter: Meter, data: bytes) -> None:
        """Follow bytes of the workspace that the event loop relays itself."""
        self._library.relay_follow(ctypes.byref(meter), data, len(data))

    def join(self, one: int, other: int, meter: Meter, on_returned: OnReturned) -> int | None:
        """Relay between two sockets that nothing else reads or writes.

        None: no descriptors now.

        ``one`` is the client's; ``meter`` follows what both send. ``on_returned`` is called in the event loop when
        the thread returns the pair; not after ``part``.
        """
        if max(one, other) > self._highest:
            return None
        pair: int | None = self._library.relay_join(self._handle, one, other, ctypes.byref(meter))
        if pair:
            self._carried[pair] = on_returned, meter
        return pair

    def part(self, pair: int) -> Left:
        """Stop relaying a pair.

        When this returns, the thread does not touch its sockets any more.
        """
        left = _LeftStruct()
        self._library.relay_part(self._handle, pair, ctypes.byref(left))
        del self._carried[pair]
        return Left(
            data=(self._copy_and_free(left, 0), self._copy_and_free(left, 1)),
            broken=(bool(left.broken & 1), bool(left.broken & 2)),
        )

    def close(self) -> None:
        """Part every pair and end the thread."""
        self._loop.remove_reader(self._library.relay_news(self._handle))
        for pair in list(self._carried):
            self.part(pair)
        self._library.relay_close(self._handle)

    def _on_pairs_aside(self) -> None:
        while pair := self._library.relay_aside(self._handle):
            on_returned, _ = self._carried[pair]
            on_returned(self.part(pair))

    def _copy_and_free(self, left: "_LeftStruct", side: int) -> bytes:
        at = left.data[side]
        if not at:
            return b""
        data = ctypes.string_at(at, left.size[side])
        self._library.relay_free(at)
        return data


class _LeftStruct(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p * 2),
        ("size", ctypes.c_size_t * 2),
        ("broken", ctypes.c_int),
    )


@functools.cache
def load() -> ctypes.CDLL | None:
    """Load the library. None: not built, built for another architecture, or from an older source."""
    handle, descriptor, meter = ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(Meter)
    try:
        library = ctypes.CDLL(str(LIBRARY))
        for name, result, arguments in (
            ("relay_open", handle, ()),
            ("relay_news", descriptor, (handle,)),
            ("relay_join", handle, (handle, descriptor, descriptor, meter)),
            ("relay_count", None, (meter, ctypes.c_char_p, ctypes.c_size_t)),
            ("relay_follow", None, (meter, ctypes.c_char_p, ctypes.c_size_t)),
            ("relay_aside", handle, (handle,)),
            ("relay_part", None, (handle, handle, ctypes.POINTER(_LeftStruct))),
            ("relay_free", None, (handle,)),
            ("relay_close", None, (handle,)),
        ):
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        return None
    return library
