"""Two connections that are one: what arrives at either end leaves at the other.

After the handshake a WebSocket is bytes without meaning to us, sometimes a hundred thousand small messages a
second. So an end's ``data_received`` *is* the other transport's ``write``: the event loop calls it directly
and no line of Python runs for a message. Everything else that happens (an end that closes, a reader that is
slow) is still its connection's business.
"""

import asyncio
from typing import Protocol


class Connection(Protocol):
    """What a tunnel needs of each of its two connections."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def eof_received(self) -> bool: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class End(asyncio.Protocol):
    __slots__ = ("_of", "data_received")

    def __init__(self, of: Connection, *, other: asyncio.Transport) -> None:
        self._of = of
        self.data_received = other.write  # type: ignore[method-assign]  # that is the point

    def eof_received(self) -> bool:
        return self._of.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._of.connection_lost(exc)

    def pause_writing(self) -> None:
        self._of.pause_writing()

    def resume_writing(self) -> None:
        self._of.resume_writing()


def join(one: Connection, other: Connection) -> None:
    """Until each transport gets its own protocol back, which comes before either is closed."""
    one.transport.set_protocol(End(one, other=other.transport))
    other.transport.set_protocol(End(other, other=one.transport))
