"""The states of a client's connection, what leads from one to the next, and how long each may take.

``ClientConnection`` reads requests and sends them on; here is what follows from a response that ended, an
upstream that broke, a client that is slow. Nobody holds a connection for ever: every state has a timeout,
enforced about once a second (``sweep``) so that the hot path sets no timers.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from enum import Enum
from typing import cast

from codehub.proxy.answers import Answer, refused
from codehub.proxy.engine import ProxyEngine
from codehub.proxy.http1.request import FieldMemory, RequestHead
from codehub.proxy.upstream.destinations import Destination
from codehub.proxy.upstream.exchange import Exchange
from codehub.proxy.upstream.pool import UpstreamConnection
from codehub.proxy.upstream.tunnel import Tunnel

READ_AHEAD = 64 * 1024  # how much of what follows the current request may wait here
FORGET_AFTER = 5.0
RESET = struct.pack("ii", 1, 0)


class ConnectionState(Enum):
    READING = "reading"  # waits for a request head, or reads one
    ADMITTING = "admitting"  # a task finds out whether and where it goes, or connects
    EXCHANGING = "exchanging"  # one request and its response
    TUNNEL = "tunnel"  # bytes both ways, until either side ends
    LINGERING = "lingering"  # answered for the last time; reads on, so that the answer arrives
    CLOSED = "closed"  # closed, or closing once everything written has left


_S = ConnectionState
TRANSITIONS: Mapping[ConnectionState, frozenset[ConnectionState]] = {
    _S.READING: frozenset({_S.READING, _S.ADMITTING, _S.EXCHANGING, _S.LINGERING, _S.CLOSED}),
    _S.ADMITTING: frozenset({_S.READING, _S.ADMITTING, _S.EXCHANGING, _S.LINGERING, _S.CLOSED}),
    # Back to ADMITTING: the kept upstream connection was dead, and the request is sent over a new one.
    _S.EXCHANGING: frozenset({_S.READING, _S.ADMITTING, _S.TUNNEL, _S.LINGERING, _S.CLOSED}),
    _S.TUNNEL: frozenset({_S.CLOSED}),
    _S.LINGERING: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset({_S.CLOSED}),
}


class Connection(asyncio.Protocol):
    __slots__ = (
        "_buffer",
        "_conn_id",
        "_engine",
        "_eof",
        "_full",
        "_keep_alive",
        "_lingered",
        "_loop",
        "_memory",
        "_task",
        "_to",
        "_upstream_is_full",
        "closes",
        "deadline",
        "exchange",
        "quiet",
        "state",
        "touched",
        "transport",
    )

    def __init__(self, engine: ProxyEngine) -> None:
        self._engine = engine
        self._loop = engine.loop
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.state = ConnectionState.READING
        self.exchange: Exchange | None = None  # in EXCHANGING and TUNNEL
        self.closes = False  # after the response under way
        self.touched = False  # bytes moved since the last sweep
        self.quiet = 0.0  # seconds without, while an exchange is under way
        self.deadline = self._loop.time() + engine.settings.head_timeout
        self._keep_alive = engine.settings.keep_alive
        self._buffer = b""  # read, and not yet anybody's
        self._task: asyncio.Task[None] | None = None  # in ADMITTING
        self._to: Destination | None = None  # where the exchange under way goes
        self._conn_id: str | None = None  # of the lease, if it is a WebSocket
        self._memory = FieldMemory()
        self._eof = False  # the client has closed its side
        self._full = False  # the client does not take more bytes for now
        self._upstream_is_full = False
        self._lingered = 0  # bytes thrown away in LINGERING

    def _transition(self, to: ConnectionState) -> None:
        """The only place where the state changes."""
        assert to in TRANSITIONS[self.state], f"{self.state.value} -> {to.value}"
        if self.state is ConnectionState.TUNNEL:
            self._engine.metrics.websockets_open -= 1
        self.state = to

    def _read_head(self) -> None:
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop what only makes the next request quicker: thousands at rest should cost little."""
        self._memory.clear()

    # What the exchange calls ----------------------------------------------------------------------

    def exchange_done(self, *, close: bool) -> None:
        self.exchange = None
        self._end_activity()
        if close:  # the connection ends here, though the client may still be sending
            self._linger()
        else:
            self._transition(ConnectionState.READING)
            self._next()

    def upstream_full(self, *, full: bool) -> None:
        self._upstream_is_full = full
        self._update_reading()

    def upstream_broke(self, exchange: Exchange) -> None:
        self._engine.metrics.upstream_broken_total += 1
        self.exchange = None
        to = self._to
        self._end_activity()
        if exchange.started:
            self._reset()
        else:
            self._answer_and_close(self._engine.admission.bad_gateway(exchange.request, to))

    def tunnel_opened(self) -> None:
        """From here on both sides are bytes without meaning to us."""
        self._transition(ConnectionState.TUNNEL)
        self._engine.metrics.websockets_open += 1
        self._engine.metrics.websockets_total += 1
        self._forget()
        if self._buffer and self.exchange is not None:
            data, self._buffer = self._buffer, b""
            self.exchange.client_data(data)
            self._update_reading()

    def join(self, upstream: UpstreamConnection) -> Tunnel:
        return Tunnel(self, upstream, relay=self._engine.relay, loop=self._loop)

    def tunnel_closed(self) -> None:
        self.exchange = None
        self._end_activity()
        self._close_when_flushed()

    # From one request to the next -----------------------------------------------------------------

    def is_idle(self) -> bool:
        """Ready for the next request."""
        return self.state is ConnectionState.READING and not self._full

    def is_tunnel(self) -> bool:
        return self.state is ConnectionState.TUNNEL

    def _next(self) -> None:
        if self.closes and self._buffer:  # closing on unread bytes would reset the answer away
            self._linger()
            return
        if self.closes or (self._eof and not self._buffer):
            self._close_when_flushed()
            return
        self._upstream_is_full = False
        self.deadline = self._loop.time() + self._keep_alive
        if self._buffer:
            self._update_reading()
            if not self._full:
                # Not recursively: a client may have pipelined thousands.
                self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self.is_idle() and self._buffer and not self.transport.is_closing():
            self._read_head()
            if self.is_idle() and self._eof:
                self.transport.close()

    # Answering, and ending ------------------------------------------------------------------------

    def _answer(self, request: RequestHead, answer: Answer) -> None:
        if request.has_body:  # unread, and not worth reading: the next request would be behind it
            self._answer_and_close(answer, omit_body=request.method == b"HEAD")
            return
        self._engine.metrics.answers[answer.status] += 1
        head = answer.head(close=self.closes, secure=self._engine.settings.secure)
        self.transport.write(head if request.method == b"HEAD" else head + answer.body)
        self._transition(ConnectionState.READING)
        self._next()

    def _answer_and_close(self, answer: Answer, *, omit_body: bool = False) -> None:
        """Answer, then read on for a moment: closing on unread bytes would reset the answer away."""
        if self.transport.is_closing():
            return
        self._engine.metrics.answers[answer.status] += 1
        head = answer.head(close=True, secure=self._engine.settings.secure)
        self.transport.write(head if omit_body else head + answer.body)
        self._linger()

    def _break_or_answer(self, answer: Answer) -> None:
        exchange, self.exchange = self.exchange, None
        self._end_activity()
        if exchange is not None:
            exchange.abandon()
        if exchange is not None and exchange.started:
            self._reset()
        else:
            self._answer_and_close(answer)

    def _linger(self) -> None:
        self._transition(ConnectionState.LINGERING)
        self._buffer = b""
        self._lingered = 0
        self.quiet = 0.0
        self._upstream_is_full = False
        if self._eof:
            self._close_when_flushed()
        elif not self.transport.is_closing():
            self.deadline = self._loop.time() + self._engine.settings.linger
            self.transport.resume_reading()
            self.transport.write_eof()

    def _close_when_flushed(self) -> None:
        self._transition(ConnectionState.CLOSED)
        self.deadline = self._loop.time() + self._engine.settings.client_stall
        self.transport.close()

    def _reset(self) -> None:
        """End the connection so that nobody takes what arrived for a whole: RST instead of FIN."""
        self._transition(ConnectionState.CLOSED)
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def _begin_activity(self, to: Destination, *, websocket: bool) -> None:
        self._to = to
        if to.requests is None:
            return
        if websocket:
            self._conn_id = self._engine.activity.socket_opened(to.requests.workspace_id)
        else:
            to.requests.began(self._loop.time())

    def _end_activity(self) -> None:
        to, self._to = self._to, None
        if to is None or to.requests is None:
            return
        if self._conn_id is None:
            to.requests.ended(self._loop.time())
        else:
            self._engine.activity.socket_closed(to.requests.workspace_id, self._conn_id)
            self._conn_id = None

    def _update_reading(self) -> None:
        if self.transport.is_closing():
            return
        if self._upstream_is_full or len(self._buffer) > READ_AHEAD:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    # What the engine calls ------------------------------------------------------------------------

    def sweep(self, now: float, elapsed: float) -> None:
        """Called about once a second: every way of taking one's time ends here."""
        exchange, settings = self.exchange, self._engine.settings
        if exchange is None:
            if now >= self.deadline:
                self._out_of_time()
            elif now >= self.deadline - settings.keep_alive + FORGET_AFTER:
                self._forget()
            return
        sending = not exchange.sending.done and not exchange.tunnel
        if sending and now >= self.deadline:
            self._break_or_answer(self._engine.admission.too_slow(waiting_for_client=True))
            return
        if self.touched:
            self.touched, self.quiet = False, 0.0
            return
        self.quiet += elapsed
        if self._full:
            limit = settings.client_stall
        elif self._eof or exchange.one_way:
            limit = settings.half_close_grace
        elif exchange.tunnel:  # may rest as long as it likes
            self.quiet = 0.0
            return
        elif sending and not self._upstream_is_full:
            limit = settings.request_idle
        else:
            limit, sending = settings.response_idle, False
        if self.quiet >= limit:
            self._break_or_answer(self._engine.admission.too_slow(waiting_for_client=sending))

    def _out_of_time(self) -> None:
        lingering = self.state is ConnectionState.LINGERING
        flushing = lingering and self.transport.get_write_buffer_size() > 0
        if flushing and self.quiet < self._engine.settings.client_stall:
            self.quiet += self._engine.settings.linger
            self.deadline += self._engine.settings.linger
        elif lingering or not self._buffer or self.transport.is_closing():
            self.transport.abort()
        else:
            self._engine.metrics.refusals["slow head"] += 1
            self._answer_and_close(refused(408, "slow head"))

    def cut(self) -> None:
        """End it at once, whatever is under way."""
        if self.exchange is not None:
            self.exchange.abandon()
        self.transport.abort()

    def drain(self) -> None:
        """The server is going: tunnels and streams close now, what is under way after its answer, and what
        is at rest after one more request, or with ``close_at_rest``."""
        self.closes = True
        exchange = self.exchange
        if exchange is not None and (exchange.tunnel or exchange.is_stream):
            exchange.abandon()
            self.transport.close()

    def close_at_rest(self) -> None:
        if self.is_idle() and not self._buffer:
            self.transport.close()
