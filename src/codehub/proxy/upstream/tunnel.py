"""Tunnel bytes between client and upstream after a WebSocket handshake.

The bytes are not parsed, and there may be a hundred thousand small messages a second. So the two sockets are
given to the relay, a thread that carries them without the event loop. It returns them when an end closes or
breaks, or when a reader is slow.

Without a relay, and while it has returned them, an end's ``data_received`` *is* the other transport's
``write``: the event loop calls it directly and no line of Python runs for a message. All other events go to the
connections, with a relay or without.
"""

import asyncio
from typing import Protocol

from codehub.proxy.upstream.relay import Left, Relay

RELAY_RETRY_SECONDS = 1.0  # until a tunnel that the relay returned or could not take is offered again


class Connection(Protocol):
    """One of a tunnel's two connections, as the tunnel sees it."""

    @property
    def transport(self) -> asyncio.Transport: ...

    def eof_received(self) -> bool | None: ...

    def connection_lost(self, exc: Exception | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...


class End(asyncio.Protocol):
    """Protocol of one transport in a tunnel.

    Data goes to the other transport, other events to the connection.
    """

    __slots__ = ("_of", "data_received")

    def __init__(self, of: Connection, *, other: asyncio.Transport) -> None:
        self._of = of
        self.data_received = other.write  # type: ignore[method-assign]  # no Python per message

    def eof_received(self) -> bool | None:
        return self._of.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._of.connection_lost(exc)

    def pause_writing(self) -> None:
        self._of.pause_writing()

    def resume_writing(self) -> None:
        self._of.resume_writing()


class Tunnel:
    """A tunnel between two connections. Call ``part`` before either is closed."""

    __slots__ = ("_loop", "_offer", "_one", "_other", "_pair", "_relay")

    def __init__(
        self, one: Connection, other: Connection, *, relay: Relay | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._one = one
        self._other = other
        self._relay = relay
        self._loop = loop
        self._pair: int | None = None  # set while the relay carries it
        self._offer: asyncio.Handle | None = None
        one.transport.set_protocol(End(one, other=other.transport))
        other.transport.set_protocol(End(other, other=one.transport))
        if relay is not None:
            # Deferred: the handshake's response, written just now, is sent after this round of the loop.
            self._offer = loop.call_soon(self._offer_to_relay)

    def part(self) -> None:
        """Take the sockets back from the relay and restore each transport's own protocol."""
        if self._offer is not None:
            self._offer.cancel()
            self._offer = None
        if self._pair is not None and self._relay is not None:
            pair, self._pair = self._pair, None
            self._continue(self._relay.part(pair))
        self._one.transport.set_protocol(self._one)  # type: ignore[arg-type]  # the protocols they began with
        self._other.transport.set_protocol(self._other)  # type: ignore[arg-type]

    def _offer_to_relay(self) -> None:
        """Give the sockets to the relay, if no transport has buffered bytes: these must be sent first."""
        self._offer = None
        transports = self._one.transport, self._other.transport
        if self._relay is None or any(transport.is_closing() for transport in transports):
            return
        if not any(transport.get_write_buffer_size() for transport in transports):
            for transport in transports:
                transport.pause_reading()
            one, other = (transport.get_extra_info("socket").fileno() for transport in transports)
            self._pair = self._relay.join(one, other, self._on_returned)
            if self._pair is not None:
                return
            for transport in transports:
                transport.resume_reading()
        self._offer = self._loop.call_later(RELAY_RETRY_SECONDS, self._offer_to_relay)

    def _on_returned(self, left: Left) -> None:
        self._pair = None
        self._offer = self._loop.call_later(RELAY_RETRY_SECONDS, self._offer_to_relay)
        self._continue(left)

    def _continue(self, left: Left) -> None:
        """Resume in the event loop, which then sees an end that closed or broke by itself."""
        transports = self._one.transport, self._other.transport
        for transport in transports:
            if not transport.is_closing():
                transport.resume_reading()
        # After resume_reading: a write that fills a buffer pauses reading of the other side.
        for transport, data, broken in zip(transports, left.data, left.broken, strict=True):
            if data and not transport.is_closing():
                transport.write(data)
            if broken:
                transport.abort()
