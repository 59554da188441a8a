"""Define the states of a client's connection, their transitions and timeouts.

``ClientConnection`` reads requests and forwards them; this module handles the end of a response, a broken
upstream and a slow client. Every state but an idle tunnel has a timeout, enforced about once a second
(``sweep``) so that the hot path sets no timers; the task of ADMITTING has timeouts of its own (directory,
connect). TCP keep-alive finds dead peers of an idle tunnel. ``recheck`` ends what waits for a paused container:
its kernel keeps every connection alive, and nothing answers.
"""

import asyncio
import socket
import struct
from collections.abc import Mapping
from enum import Enum
from typing import cast
from uuid import UUID

from codehub.proxy.answers import Answer, refused
from codehub.proxy.engine import ProxyEngine
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.upstream.destinations import Destination
from codehub.proxy.upstream.exchange import Exchange
from codehub.proxy.upstream.pool import UpstreamConnection
from codehub.proxy.upstream.tunnel import Tunnel

READ_AHEAD = 64 * 1024  # bytes buffered behind the current request before reading pauses
FORGET_AFTER = 5.0  # seconds idle after which the caches of a connection are dropped
RESET = struct.pack("ii", 1, 0)  # SO_LINGER with zero seconds: close sends RST


class ConnectionState(Enum):
    """The state of a client's connection. ``TRANSITIONS`` says which may follow which."""

    # Pays for: HTTP through the proxy. Every request looks up two transitions, and Enum's own hash is Python code.
    __hash__ = object.__hash__

    READING = "reading"  # waiting for a request head, or reading one
    ADMITTING = "admitting"  # a task decides about the request, or connects to its upstream
    EXCHANGING = "exchanging"  # one request and its response
    TUNNEL = "tunnel"  # bytes both ways, until either side ends
    LINGERING = "lingering"  # the last answer is written; read and discard, so that no RST destroys it
    CLOSED = "closed"  # closed, or closing once everything written has left


_S = ConnectionState
TRANSITIONS: Mapping[ConnectionState, frozenset[ConnectionState]] = {
    _S.READING: frozenset({_S.READING, _S.ADMITTING, _S.EXCHANGING, _S.LINGERING, _S.CLOSED}),
    _S.ADMITTING: frozenset({_S.READING, _S.ADMITTING, _S.EXCHANGING, _S.LINGERING, _S.CLOSED}),
    # Back to ADMITTING: the idle upstream connection was dead, and the request is replayed over a new one.
    _S.EXCHANGING: frozenset({_S.READING, _S.ADMITTING, _S.TUNNEL, _S.LINGERING, _S.CLOSED}),
    _S.TUNNEL: frozenset({_S.CLOSED}),
    _S.LINGERING: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset({_S.CLOSED}),
}


class ConnectionBase(asyncio.Protocol):
    """State, answers and timeouts of a client's connection.

    Subclassed by ``ClientConnection``.
    """

    __slots__ = (
        "_buffer",
        "_conn_id",
        "_early",
        "_engine",
        "_eof",
        "_full",
        "_keep_alive",
        "_lingered",
        "_loop",
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
        self.closes = False  # close after the current response
        self.touched = False  # bytes moved since the last sweep
        self.quiet = 0.0  # seconds without bytes during an exchange
        self.deadline = self._loop.time() + engine.settings.head_timeout
        self._keep_alive = engine.settings.keep_alive
        self._buffer = b""  # read, and not yet part of a request
        self._task: asyncio.Task[None] | None = None  # in ADMITTING
        self._to: Destination | None = None  # of the current exchange
        self._conn_id: str | None = None  # of the lease, for a WebSocket
        self._early = b""  # of the client, sent through the tunnel before it was there
        self._eof = False  # the client has closed its side
        self._full = False  # the write buffer towards the client is full
        self._upstream_is_full = False
        self._lingered = 0  # bytes discarded in LINGERING

    def _transition(self, to: ConnectionState) -> None:
        """Change the state. Nothing else assigns it."""
        assert to in TRANSITIONS[self.state], f"{self.state.value} -> {to.value}"
        if self.state is ConnectionState.TUNNEL:
            self._engine.metrics.websockets_open -= 1
        self.state = to

    def _read_head(self) -> None:
        raise NotImplementedError

    async def recheck(self) -> None:
        """End the current exchange or tunnel if it may not or cannot go on."""
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop caches that only speed up the next request, to save memory on idle connections."""
        raise NotImplementedError

    # What the exchange calls ----------------------------------------------------------------------

    def exchange_done(self, *, close: bool) -> None:
        """Go on after a complete response: close, or read the next request."""
        self.exchange = None
        self._end_activity()
        if close:  # the client may still be sending
            self._linger()
        else:
            self._transition(ConnectionState.READING)
            self._next()

    def upstream_full(self, *, full: bool) -> None:
        """Pause or resume reading from the client: backpressure of the upstream."""
        self._upstream_is_full = full
        self._update_reading()

    def upstream_broke(self, exchange: Exchange) -> None:
        """Answer 502, or reset if the client has seen part of a response."""
        self._engine.metrics.upstream_broken_total += 1
        self.exchange = None
        to = self._to
        self._end_activity()
        if exchange.started:
            self._reset()
        else:
            self._answer_and_close(self._engine.admission.bad_gateway(exchange.request, to))

    def tunnel_opened(self) -> None:
        """Switch to TUNNEL: from here on bytes are relayed without being parsed."""
        self._transition(ConnectionState.TUNNEL)
        self._engine.metrics.websockets_open += 1
        self._engine.metrics.websockets_total += 1
        self._forget()
        if self._buffer and self.exchange is not None:
            data, self._buffer = self._buffer, b""
            self._early = data
            self.exchange.client_data(data)
            self._update_reading()

    def join(self, upstream: UpstreamConnection, early: bytes) -> Tunnel:
        """Build the tunnel between this connection and ``upstream``, which has sent ``early`` through it."""
        sent, self._early = (self._early, early), b""
        tunnel = Tunnel(self, upstream, relay=self._engine.relay, loop=self._loop, early=sent)
        if self._to is not None and self._to.requests is not None and self._conn_id is not None:
            self._engine.activity.socket_joined(self._to.requests.workspace_id, self._conn_id, tunnel.meter)
        return tunnel

    def tunnel_closed(self) -> None:
        """Close after everything written has been sent: the upstream closed the tunnel."""
        self.exchange = None
        self._end_activity()
        self._close_when_flushed()

    # From one request to the next -----------------------------------------------------------------

    def is_idle(self) -> bool:
        """Whether the next request can be read."""
        return self.state is ConnectionState.READING and not self._full

    @property
    def workspace_id(self) -> UUID | None:
        """The workspace of the current exchange or tunnel, if any."""
        to = self._to if self.exchange is not None else None
        return to.target.id if to is not None and to.target is not None else None

    @property
    def visit_ends_at(self) -> float | None:
        """Until when a visitor may be here, in seconds since the epoch; None: not a visitor."""
        return self._to.visit_ends_at if self._to is not None else None

    def _next(self) -> None:
        if self.closes and self._buffer:  # closing with unread bytes sends RST, destroying the answer
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
                # Scheduled, not called: a client may pipeline thousands of requests, and recursion would overflow.
                self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        if self.is_idle() and self._buffer and not self.transport.is_closing():
            self._read_head()
            if self.is_idle() and self._eof:
                self.transport.close()

    # Answering and closing ------------------------------------------------------------------------

    def _answer(self, request: RequestHead, answer: Answer) -> None:
        if request.has_body:  # it was not read, and the next request would start behind it
            self._answer_and_close(answer, omit_body=request.method == b"HEAD")
            return
        self._engine.metrics.answers[answer.status] += 1
        head = answer.head(close=self.closes, secure=self._engine.settings.secure)
        self.transport.write(head if request.method == b"HEAD" else head + answer.body)
        self._transition(ConnectionState.READING)
        self._next()

    def _answer_and_close(self, answer: Answer, *, omit_body: bool = False) -> None:
        """Answer and linger: closing with unread bytes sends RST, which would destroy the answer."""
        if self.transport.is_closing():
            return
        self._engine.metrics.answers[answer.status] += 1
        head = answer.head(close=True, secure=self._engine.settings.secure)
        self.transport.write(head if omit_body else head + answer.body)
        self._linger()

    def _break_or_answer(self, answer: Answer) -> None:
        """End the exchange: reset if the client has seen part of a response, else answer and close."""
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
        """Close with RST instead of FIN, so that the client does not take a partial response for a whole one."""
        self._transition(ConnectionState.CLOSED)
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def _begin_activity(self, to: Destination, request: RequestHead) -> None:
        self._to = to
        if to.visit_ends_at is not None:
            self._engine.visitors.add(self)
        if to.requests is None:
            return
        if request.websocket:
            self._conn_id = self._engine.activity.socket_opened(to.requests.workspace_id)
        else:
            now = self._loop.time()
            by_person = request.is_navigation or (
                request.is_change and to.requests.beats.is_input(request.target, now)
            )
            to.requests.began(now, by_person=by_person)

    def _end_activity(self) -> None:
        to, self._to = self._to, None
        if to is not None and to.visit_ends_at is not None:
            self._engine.visitors.discard(self)
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
        """Enforce the timeout of the current state. Called about once a second."""
        exchange, settings = self.exchange, self._engine.settings
        if exchange is None:
            if now >= self.deadline:
                self._on_deadline()
            elif now >= self.deadline - settings.keep_alive + FORGET_AFTER:
                self._forget()
            return
        sending = not exchange.sending.done and not exchange.tunnel
        if sending and now >= self.deadline:
            self._break_or_answer(self._engine.admission.timed_out(waiting_for_client=True))
            return
        if self.touched:
            self.touched, self.quiet = False, 0.0
            return
        self.quiet += elapsed
        if self._full:
            timeout = settings.client_stall
        elif self._eof or exchange.one_way:
            timeout = settings.half_close_grace
        elif exchange.tunnel:  # an idle tunnel has no timeout
            self.quiet = 0.0
            return
        elif sending and not self._upstream_is_full:
            timeout = settings.request_idle
        else:
            timeout, sending = settings.response_idle, False
        if self.quiet >= timeout:
            self._break_or_answer(self._engine.admission.timed_out(waiting_for_client=sending))

    def _on_deadline(self) -> None:
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
        """Abort the connection and its exchange at once."""
        if self.exchange is not None:
            self.exchange.abandon()
        self.transport.abort()

    def drain(self) -> None:
        """Begin to close for a shutdown.

        Both ends of a tunnel are told. Event streams close now, an exchange after its answer, an idle connection
        after one more request or with ``close_if_idle``.
        """
        self.closes = True
        exchange = self.exchange
        if exchange is None or not (exchange.tunnel or exchange.is_stream):
            return
        if exchange.tunnel and exchange.go_away(self._engine.settings.linger):
            return
        if exchange.is_stream and self.workspace_id is None:  # of the API, whose readers come back at any end
            exchange.end_stream()
        exchange.abandon()
        self.transport.close()

    def close_if_idle(self) -> None:
        """Close unless a request is being read or handled."""
        if self.is_idle() and not self._buffer:
            self.transport.close()
