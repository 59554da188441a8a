"""Two connections that are one: what arrives at either end leaves at the other.

After the handshake a WebSocket is bytes without meaning to us, sometimes a hundred thousand small messages a
second. So the two sockets are given to the relay, a thread that carries them without the event loop. Whatever
is not plain sailing (an end that closes, a reader that is slow) makes it give them back.

Without a relay, and while it has given them back, an end's ``data_received`` *is* the other transport's
``write``: the event loop calls it directly and no line of Python runs for a message. Everything else that
happens is its connection's business, with a relay or without.
"""

import asyncio
from typing import Protocol

from codehub.proxy.upstream.relay import Left, Relay

AGAIN = 1.0  # seconds until the relay is offered a tunnel that it gave back, or that it could not take


class Connection(Protocol):
    """What a tunnel needs of each of its two connections."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def eof_received(self) -> bool | None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class End(asyncio.Protocol):
    __slots__ = ("_of", "data_received")

    def __init__(self, of: Connection, *, other: asyncio.Transport) -> None:
        self._of = of
        self.data_received = other.write  # type: ignore[method-assign]  # that is the point

    def eof_received(self) -> bool | None:
        return self._of.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._of.connection_lost(exc)

    def pause_writing(self) -> None:
        self._of.pause_writing()

    def resume_writing(self) -> None:
        self._of.resume_writing()


class Tunnel:
    """From its making until ``part``, which comes before either connection is closed."""

    __slots__ = ("_loop", "_offer", "_one", "_other", "_pair", "_relay")

    def __init__(
        self, one: Connection, other: Connection, *, relay: Relay | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._one = one
        self._other = other
        self._relay = relay
        self._loop = loop
        self._pair: int | None = None  # while the relay has it
        self._offer: asyncio.Handle | None = None
        one.transport.set_protocol(End(one, other=other.transport))
        other.transport.set_protocol(End(other, other=one.transport))
        if relay is not None:
            # Not now: what was written just now, the handshake's answer, leaves after this round of the loop.
            self._offer = loop.call_soon(self._offer_to_relay)

    def part(self) -> None:
        """Each transport gets its own protocol back, and is read again."""
        if self._offer is not None:
            self._offer.cancel()
            self._offer = None
        if self._pair is not None and self._relay is not None:
            pair, self._pair = self._pair, None
            self._continue(self._relay.part(pair))
        self._one.transport.set_protocol(self._one)  # type: ignore[arg-type]  # the protocols they began with
        self._other.transport.set_protocol(self._other)  # type: ignore[arg-type]

    def _offer_to_relay(self) -> None:
        """Bytes that wait in a transport must leave first, and only the event loop knows when they have."""
        self._offer = None
        transports = self._one.transport, self._other.transport
        if self._relay is None or any(transport.is_closing() for transport in transports):
            return
        if not any(transport.get_write_buffer_size() for transport in transports):
            for transport in transports:
                transport.pause_reading()
            one, other = (transport.get_extra_info("socket").fileno() for transport in transports)
            self._pair = self._relay.join(one, other, self._came_back)
            if self._pair is not None:
                return
            for transport in transports:
                transport.resume_reading()
        self._offer = self._loop.call_later(AGAIN, self._offer_to_relay)

    def _came_back(self, left: Left) -> None:
        self._pair = None
        self._offer = self._loop.call_later(AGAIN, self._offer_to_relay)
        self._continue(left)

    def _continue(self, left: Left) -> None:
        """The event loop's again, which meets an end that closed or broke as if it had never been away."""
        transports = self._one.transport, self._other.transport
        for transport in transports:
            if not transport.is_closing():
                transport.resume_reading()
        # Afterwards: a write that fills a buffer stops the other side from being read.
        for transport, data, broken in zip(transports, left.data, left.broken, strict=True):
            if data and not transport.is_closing():
                transport.write(data)
            if broken:
                transport.abort()
