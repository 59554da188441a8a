"""Tunnel bytes between client and upstream after a WebSocket handshake.

There may be a hundred thousand small messages a second. So the two sockets are given to the relay, a thread that
carries them without the event loop. It returns them when an end closes or breaks, or when a reader is slow. Without a
relay, and while it has returned them, the event loop carries them. Events other than data go to the connections.

Of the frames only the heads are followed, to know where a message ends: a proxy that ends tells both ends, between two
messages (``go_away``). The relay follows them with its ``Meter``, which also counts what the client sends; bytes that
pass through the event loop are given to it as well, so that it never loses its place. Without a relay nothing is
counted, and an open tunnel counts as input.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from codehub.proxy.http1.websocket import FramePosition
from codehub.proxy.upstream.going_away import go_away
from codehub.proxy.upstream.relay import Left, Meter, Relay

RELAY_RETRY_SECONDS = 1.0  # until a tunnel that the relay returned or could not take is offered again


class TunnelSide(Protocol):
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

    def __init__(self, of: TunnelSide, *, receive: Callable[[bytes], None]) -> None:
        self._of = of
        self.data_received = receive  # type: ignore[method-assign,assignment]

    def eof_received(self) -> bool | None:
        return self._of.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._of.connection_lost(exc)

    def pause_writing(self) -> None:
        self._of.pause_writing()

    def resume_writing(self) -> None:
        self._of.resume_writing()


class Tunnel:
    """A tunnel between a client and its upstream. Call ``part`` before either is closed."""

    __slots__ = ("_loop", "_offer", "_one", "_other", "_pair", "_positions", "_relay", "meter")

    def __init__(
        self,
        one: TunnelSide,
        other: TunnelSide,
        *,
        relay: Relay | None,
        loop: asyncio.AbstractEventLoop,
        early: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        """``one`` is the client, ``early`` what each has sent through before this."""
        self._one = one
        self._other = other
        self._relay = relay
        self._loop = loop
        self._pair: int | None = None  # set while the relay carries it
        self._offer: asyncio.Handle | None = None
        # None: what the client sends is not counted
        self.meter = Meter.begin() if relay is not None else None
        self._positions = FramePosition(), FramePosition()  # without a relay
        self._follow_client(early[0])
        self._follow_upstream(early[1])
        one.transport.set_protocol(End(one, receive=self._client_data))
        other.transport.set_protocol(End(other, receive=self._upstream_data))
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

    def go_away(self, seconds: float) -> bool:
        """Part, and tell both ends that this proxy ends; they have ``seconds`` to answer.

        False: it is not known where a frame ends, or an end is gone. Then nobody was told.
        """
        self.part()
        positions = self._positions
        if self.meter is not None:
            client, upstream = self.meter.sent
            positions = client.position(), upstream.position()
        transports = self._one.transport, self._other.transport
        if any(position.lost for position in positions) or any(each.is_closing() for each in transports):
            return False
        go_away(self._one, self._other, positions, seconds=seconds)
        return True

    def _client_data(self, data: bytes) -> None:
        self._follow_client(data)
        self._other.transport.write(data)

    def _upstream_data(self, data: bytes) -> None:
        self._follow_upstream(data)
        self._one.transport.write(data)

    def _follow_client(self, data: bytes) -> None:
        if self._relay is None or self.meter is None:
            self._positions[0].follow(data)
        else:
            self._relay.count(self.meter, data)

    def _follow_upstream(self, data: bytes) -> None:
        if self._relay is None or self.meter is None:
            self._positions[1].follow(data)
        else:
            self._relay.follow(self.meter, data)

    def _offer_to_relay(self) -> None:
        """Give the sockets to the relay, if no transport has buffered bytes: these must be sent first."""
        self._offer = None
        transports = self._one.transport, self._other.transport
        meter = self.meter
        if self._relay is None or meter is None or any(transport.is_closing() for transport in transports):
            return
        if not any(transport.get_write_buffer_size() for transport in transports):
            for transport in transports:
                transport.pause_reading()
            one, other = (transport.get_extra_info("socket").fileno() for transport in transports)
            self._pair = self._relay.join(one, other, meter, self._on_returned)
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
