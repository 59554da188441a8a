"""The fast lane of WebSockets: pairs of sockets carried by a thread that knows no Python (``relay.c``).

Small messages cost the kernel most of their time; what Python and the event loop add is a quarter on top. The
library is built with the package where there is a C compiler (``hatch_build.py``). Where it was not built, or
cannot be loaded, ``open`` answers None and the event loop carries every byte itself: slower, nothing else.

It takes plain sailing only. A pair whose end closes, breaks or does not take its bytes comes back
(``came_back``) with what was read and not yet taken, and is the event loop's again.
"""

import asyncio
import ctypes
import functools
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path(__file__).with_name("_relay.so")


@dataclass(frozen=True)
class Left:
    """What became of a pair: bytes for either end that it has not taken, and ends that cannot be read."""

    data: tuple[bytes, bytes]
    broken: tuple[bool, bool]


CameBack = Callable[[Left], None]


class Relay:
    """All pairs of one event loop. If the process dies, the kernel closes what the thread had."""

    def __init__(self, library: ctypes.CDLL, loop: asyncio.AbstractEventLoop) -> None:
        self._library = library
        self._loop = loop
        self._carried: dict[int, CameBack] = {}
        # It takes two descriptors more for each pair. The last quarter of them is for people who come in.
        self._highest = resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4
        self._handle = library.relay_open()
        if not self._handle:
            raise OSError("no thread or descriptors for a relay")
        loop.add_reader(library.relay_news(self._handle), self._take_back)

    @classmethod
    def open(cls, loop: asyncio.AbstractEventLoop) -> "Relay | None":
        library = load()
        if library is None:
            return None
        try:
            return cls(library, loop)
        except OSError:
            return None

    def __len__(self) -> int:
        """How many pairs it carries."""
        return len(self._carried)

    def join(self, one: int, other: int, came_back: CameBack) -> int | None:
        """Carry bytes between two sockets that nobody else reads or writes. None: it cannot, now.

        ``came_back`` is called, in the event loop, when it carries them no longer; not after ``part``.
        """
        if max(one, other) > self._highest:
            return None
        pair: int | None = self._library.relay_join(self._handle, one, other)
        if pair:
            self._carried[pair] = came_back
        return pair

    def part(self, pair: int) -> Left:
        """Stop carrying. When this returns, the thread does not touch them any more."""
        del self._carried[pair]
        left = _Left()
        self._library.relay_part(self._handle, pair, ctypes.byref(left))
        return Left(
            data=(self._taken(left, 0), self._taken(left, 1)),
            broken=(bool(left.broken & 1), bool(left.broken & 2)),
        )

    def close(self) -> None:
        self._loop.remove_reader(self._library.relay_news(self._handle))
        for pair in list(self._carried):
            self.part(pair)
        self._library.relay_close(self._handle)

    def _take_back(self) -> None:
        while pair := self._library.relay_aside(self._handle):
            came_back = self._carried[pair]
            came_back(self.part(pair))

    def _taken(self, left: "_Left", side: int) -> bytes:
        at = left.data[side]
        if not at:
            return b""
        data = ctypes.string_at(at, left.size[side])
        self._library.relay_free(at)
        return data


class _Left(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p * 2),
        ("size", ctypes.c_size_t * 2),
        ("broken", ctypes.c_int),
    )


@functools.cache
def load() -> ctypes.CDLL | None:
    """The library; None where it was not built, or for another kind of machine."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
    except OSError:
        return None
    handle, descriptor = ctypes.c_void_p, ctypes.c_int
    for function, result, arguments in (
        (library.relay_open, handle, ()),
        (library.relay_news, descriptor, (handle,)),
        (library.relay_join, handle, (handle, descriptor, descriptor)),
        (library.relay_aside, handle, (handle,)),
        (library.relay_part, None, (handle, handle, ctypes.POINTER(_Left))),
        (library.relay_free, None, (handle,)),
        (library.relay_close, None, (handle,)),
    ):
        function.restype, function.argtypes = result, arguments
    return library
