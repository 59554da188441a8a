"""A client's connection: reads one request at a time, in order, and sees that nobody holds it for ever.

A request whose answer is in memory (who, where, a kept upstream connection) goes through without leaving
the callback it arrived in. Anything else — an unknown face, a sleeping workspace, a connect — runs in one
task per connection, while what the client sends meanwhile waits in a small buffer.
"""

import asyncio
import socket
import struct
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import structlog

from codehub.proxy.activity import Requests
from codehub.proxy.answers import Answer, refused
from codehub.proxy.destinations import Destination
from codehub.proxy.exchange import Exchange
from codehub.proxy.framing import FramingError
from codehub.proxy.gate import Verdict, has_own_origin, judge
from codehub.proxy.identity import Identity, identify
from codehub.proxy.passes import Pass
from codehub.proxy.request import FieldMemory, Refused, RequestHead, parse_request
from codehub.proxy.rewrite import forwarded_lines, upstream_head
from codehub.proxy.routing import Door, Route
from codehub.proxy.upstream import ConnectFailed, keep_alive

if TYPE_CHECKING:
    from codehub.proxy.server import Engine

log = structlog.get_logger(__name__)

READ_AHEAD = 64 * 1024  # how much of what follows the current request may wait here
LINGER_LIMIT = 1024 * 1024
RESET = struct.pack("ii", 1, 0)


class ClientConnection(asyncio.Protocol):
    __slots__ = (
        "_address",
        "_buffer",
        "_conn_id",
        "_engine",
        "_eof",
        "_forwarded",
        "_forwarded_key",
        "_full",
        "_identity",
        "_identity_key",
        "_lingered",
        "_loop",
        "_memory",
        "_pass",
        "_requests",
        "_task",
        "_to",
        "_upstream_is_full",
        "closes",
        "deadline",
        "exchange",
        "quiet",
        "request_began_at",
        "touched",
        "transport",
    )

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._loop = engine.loop
        self.transport: asyncio.Transport = cast(asyncio.Transport, None)
        self.exchange: Exchange | None = None
        self.closes = False  # after the response under way
        self.touched = False  # bytes moved since the last sweep
        self.quiet = 0.0  # seconds without, while an exchange is under way
        self.deadline = self._loop.time() + engine.settings.head_timeout
        self.request_began_at = 0.0
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self._to: Destination | None = None
        self._pass: Pass | None = None
        self._requests: Requests | None = None  # of the workspace last asked for
        self._memory = FieldMemory()
        self._conn_id: str | None = None
        self._address = b""
        self._eof = False
        self._full = False  # the client does not take more bytes for now
        self._upstream_is_full = False
        self._lingered: int | None = None  # bytes thrown away since the last answer
        self._identity: Identity | None = None
        self._identity_key: tuple[bytes | None, bytes | None, UUID | bool | None] | None = None
        self._forwarded = b""
        self._forwarded_key: tuple[bytes, bytes, bytes | None] | None = None

    # What the transport calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        engine = self._engine
        self.transport.set_write_buffer_limits(engine.settings.write_high, engine.settings.write_low)
        keep_alive(transport)
        peer = transport.get_extra_info("peername")
        self._address = peer[0].encode() if isinstance(peer, tuple) else b"127.0.0.1"
        if not engine.admit(self):
            self._answer_and_close(engine.concierge.overloaded())

    def data_received(self, data: bytes) -> None:
        self.touched = True
        if self._lingered is not None:
            self._lingered += len(data)
            if self._lingered > LINGER_LIMIT:
                self.transport.abort()
            return
        exchange = self.exchange
        if exchange is not None:
            try:
                data = exchange.client_data(data)
            except FramingError:
                self._engine.metrics.refusals["framing"] += 1
                self._break_or_answer(refused(400, "malformed body"))
                return
            if not data:
                return
        self._buffer = self._buffer + data if self._buffer else data
        if self.is_idle():
            self._read_head()
        elif len(self._buffer) > READ_AHEAD:
            self._update_reading()

    def eof_received(self) -> bool:
        """A client may close its side and still wait for its answer; in mid-request it broke off."""
        exchange = self.exchange
        if exchange is not None and exchange.tunnel:
            return exchange.client_eof()
        if exchange is not None and exchange.sending.done:
            # Nobody half-closes an event stream: the tab is gone.
            self._eof = True
            return not exchange.is_stream
        if self._task is not None and exchange is None:
            self._eof = True
            return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._engine.left(self)
        if self._task is not None:
            self._task.cancel()
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.abandon()
            if exchange.tunnel:
                self._engine.metrics.websockets_open -= 1
        self._end_activity()

    def pause_writing(self) -> None:
        self._full = True
        if self.exchange is not None:
            self.exchange.client_full(full=True)

    def resume_writing(self) -> None:
        self._full = False
        self.touched = True
        if self.exchange is not None:
            self.exchange.client_full(full=False)
        elif self.is_idle() and self._buffer:
            self._read_head()

    # Reading requests -----------------------------------------------------------------------------

    def is_idle(self) -> bool:
        """Ready for the next request."""
        return self.exchange is None and self._task is None and self._lingered is None and not self._full

    def _read_head(self) -> None:
        buffer = self._buffer
        if buffer.startswith(b"\r\n"):  # a line end too many behind the previous body: RFC 9112, 2.2
            buffer = self._buffer = buffer[2:]
            if not buffer:
                return
        settings = self._engine.settings
        end = buffer.find(b"\r\n\r\n", 0, settings.max_head)
        if end < 0:
            self._wait_for_head(buffer)
            return
        end += 4
        head, self._buffer = (buffer, b"") if end == len(buffer) else (buffer[:end], buffer[end:])
        self._engine.metrics.requests_total += 1
        try:
            request = parse_request(head, self._memory)
        except Refused as refusal:
            self._refuse(refusal)
            return
        self.closes = request.wants_close or self._engine.draining
        if not request.host:
            request.host = self._engine.public_authority
        self._dispatch(request)

    def _wait_for_head(self, buffer: bytes) -> None:
        settings = self._engine.settings
        if len(buffer) >= settings.max_head:
            self._refuse(Refused(431, "head too large"))
        elif buffer.count(b"\n") != buffer.count(b"\r\n") or b"\0" in buffer:
            self._refuse(Refused(400, "malformed"))
        elif self.request_began_at == 0.0:
            # From the first byte on, however slowly the rest drips in.
            self.request_began_at = self._loop.time()
            self.deadline = self.request_began_at + settings.head_timeout

    def _refuse(self, refusal: Refused) -> None:
        self._engine.metrics.refusals[refusal.cause] += 1
        self._answer_and_close(refused(refusal.status, refusal.cause))

    def _dispatch(self, request: RequestHead) -> None:
        engine = self._engine
        self.request_began_at = 0.0
        self.quiet = 0.0
        self.deadline = float("inf")
        route = engine.router.match(request.host, request.target)
        if route.door is Door.API:
            if request.websocket and not has_own_origin(request, engine.scheme):
                self._answer(request, engine.concierge.bad_origin())
                return
            if request.has_body:  # anybody may send one, so it may not take for ever
                self.deadline = self._loop.time() + engine.settings.api_request_limit
            self._forward(request, None, route.path, engine.api)
            return
        identity = self._identify(request, route)
        if route.door is Door.WORKSPACE and (known := self._recall(request, route, identity)) is not None:
            self._forward(request, identity, known.destination.path(route), known.destination)
        else:
            self._spawn(self._admit(request, route, identity))

    def _recall(self, request: RequestHead, route: Route, identity: Identity) -> Pass | None:
        """The way in, if it can be told without asking anybody."""
        engine, known, now = self._engine, self._pass, self._loop.time()
        generation = engine.access.generation
        if known is not None and known.is_good_for(request, route, identity, now=now, generation=generation):
            return known
        if not identity.key or route.workspace_id is None:
            return None
        recalled = engine.access.recall(identity.key, route.workspace_id, now)
        if recalled is None:
            return None
        principal, target, until = recalled
        verdict = judge(request, route, principal=principal, target=target, scheme=engine.scheme)
        destination = engine.destinations.workspace(target, route) if verdict is Verdict.RELAY else None
        if destination is None:
            return None
        self._pass = Pass(route, identity, destination, until=until, generation=generation)
        return self._pass

    def _identify(self, request: RequestHead, route: Route) -> Identity:
        fields = request.fields
        own_origin = route.own_origin
        key = (fields.get(b"cookie"), fields.get(b"authorization"), own_origin and route.workspace_id)
        identity = self._identity
        if identity is None or key != self._identity_key:
            identity = identify(
                key[0],
                key[1],
                names=self._engine.cookies,
                own_origin=own_origin,
                workspace_id=route.workspace_id,
            )
            self._identity, self._identity_key = identity, key
        return identity

    # The two ways on: relay, or answer ------------------------------------------------------------

    def _forward(self, request: RequestHead, identity: Identity | None, path: bytes, to: Destination) -> None:
        """``identity``: given where CodeHub's own secrets must be left out, None where they belong."""
        engine, policy = self._engine, to.policy
        forwarded = self._forwarded_lines(request, policy.prefix)
        head = upstream_head(request, path, identity=identity, forwarded=forwarded, policy=policy)
        exchange = Exchange(self, request, head, policy)
        self._to = to
        if to.target is not None:
            requests = self._requests
            if requests is None or requests.workspace_id is not to.target.id:
                requests = self._requests = engine.activity.requests(to.target.id)
            requests.began(self._loop.time())
        # Only what may be sent twice goes over a kept connection, which may be dead without our knowing.
        upstream = engine.pool.take(to.lane) if request.is_replayable else None
        if upstream is None:
            self._spawn(self._connect(exchange, to))
        else:
            self.exchange = exchange
            exchange.start(upstream)

    def _forwarded_lines(self, request: RequestHead, prefix: bytes) -> bytes:
        engine = self._engine
        claimed = request.fields.get(b"x-forwarded-for") if engine.trusts(self._address) else None
        key = (request.host, prefix, claimed)
        if key != self._forwarded_key:
            chain = b"%b, %b" % (claimed, self._address) if claimed else self._address
            self._forwarded_key = key
            self._forwarded = forwarded_lines(
                chain=chain, peer=self._address, scheme=engine.scheme, host=request.host, prefix=prefix
            )
        return self._forwarded

    async def _admit(self, request: RequestHead, route: Route, identity: Identity) -> None:
        outcome = await self._engine.concierge.receive(request, route, identity)
        self._task = None
        if isinstance(outcome, Answer):
            self._answer(request, outcome)
        else:
            self._forward(request, identity, outcome.path, outcome.to)

    async def _connect(self, exchange: Exchange, to: Destination) -> None:
        try:
            upstream = await self._engine.connect(to)
        except ConnectFailed:
            answer = await self._engine.concierge.unreachable(exchange.request, to)
            self._end_activity()
            self._task = None
            self._answer(exchange.request, answer)
            return
        self._task = None
        self.exchange = exchange
        exchange.start(upstream)
        if self._full:
            exchange.client_full(full=True)
        if self._buffer and not exchange.sending.done:
            data, self._buffer = self._buffer, b""
            self.data_received(data)
        if self._eof and not exchange.sending.done:  # it broke off while we were connecting
            self.transport.abort()
            return
        self._update_reading()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = self._loop.create_task(self._guard(work))

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            log.exception("a request could not be handled")
            self._task = None
            self._end_activity()
            self._answer_and_close(self._engine.concierge.failed())

    def _answer(self, request: RequestHead, answer: Answer) -> None:
        if request.has_body:  # unread, and not worth reading: the next request would be behind it
            self._answer_and_close(answer, omit_body=request.method == b"HEAD")
            return
        self._engine.metrics.answers[answer.status] += 1
        head = answer.head(close=self.closes)
        self.transport.write(head if request.method == b"HEAD" else head + answer.body)
        self._next()

    def _answer_and_close(self, answer: Answer, *, omit_body: bool = False) -> None:
        """Answer, then read on for a moment: closing on unread bytes would reset the answer away."""
        if self.transport.is_closing():
            return
        self._engine.metrics.answers[answer.status] += 1
        self.transport.write(answer.head(close=True) + (b"" if omit_body else answer.body))
        self._linger()

    # What the exchange calls ----------------------------------------------------------------------

    def exchange_done(self, *, close: bool) -> None:
        self.exchange = None
        self._end_activity()
        if close:  # the connection ends here, though the client may still be sending
            self._linger()
        else:
            self._next()

    def upstream_full(self, *, full: bool) -> None:
        self._upstream_is_full = full
        self._update_reading()

    def replay(self, exchange: Exchange) -> None:
        self.exchange = None
        if self._to is not None and not self.transport.is_closing():
            again = Exchange(self, exchange.request, exchange.head, self._to.policy)
            self._spawn(self._connect(again, self._to))

    def upstream_broke(self, exchange: Exchange) -> None:
        self._engine.metrics.upstream_broken_total += 1
        self.exchange = None
        to = self._to
        self._end_activity()
        if exchange.started:
            self._reset()
        else:
            self._answer_and_close(self._engine.concierge.bad_gateway(exchange.request, to))

    def tunnel_opened(self) -> None:
        """From here on both sides are bytes without meaning to us."""
        metrics, activity = self._engine.metrics, self._engine.activity
        metrics.websockets_open += 1
        metrics.websockets_total += 1
        if self._requests is not None and self._to is not None and self._to.target is not None:
            self._requests.ended(self._loop.time())
            self._conn_id = activity.socket_opened(self._to.target.id)
        self._memory.clear()
        if self._buffer and self.exchange is not None:
            data, self._buffer = self._buffer, b""
            self.exchange.client_data(data)
            self._update_reading()

    def tunnel_closed(self) -> None:
        self._engine.metrics.websockets_open -= 1
        self.exchange = None
        self._end_activity()
        self._close_when_flushed()

    # Ends -----------------------------------------------------------------------------------------

    def _linger(self) -> None:
        self._buffer = b""
        self._lingered = 0
        self._upstream_is_full = False
        if self._eof:
            self._close_when_flushed()
        elif not self.transport.is_closing():
            self.deadline = self._loop.time() + self._engine.settings.linger
            self.transport.resume_reading()
            self.transport.write_eof()

    def _close_when_flushed(self) -> None:
        self.deadline = self._loop.time() + self._engine.settings.client_stall
        self.transport.close()

    def _next(self) -> None:
        if self.closes or (self._eof and not self._buffer):
            self._close_when_flushed()
            return
        self._upstream_is_full = False
        self.deadline = self._loop.time() + self._engine.settings.keep_alive
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

    def _end_activity(self) -> None:
        to, self._to = self._to, None
        if to is None or to.target is None:
            return
        if self._conn_id is None:
            if self._requests is not None:
                self._requests.ended(self._loop.time())
        else:
            self._engine.activity.socket_closed(to.target.id, self._conn_id)
            self._conn_id = None

    def _update_reading(self) -> None:
        if self._upstream_is_full or len(self._buffer) > READ_AHEAD:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def _break_or_answer(self, answer: Answer) -> None:
        exchange, self.exchange = self.exchange, None
        self._end_activity()
        if exchange is not None:
            exchange.abandon()
        if exchange is not None and exchange.started:
            self._reset()
        else:
            self._answer_and_close(answer)

    def _reset(self) -> None:
        """End the connection so that nobody takes what arrived for a whole: RST instead of FIN."""
        sock = self.transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.transport.abort()

    def sweep(self, now: float, elapsed: float) -> None:
        """Called about once a second: every way of taking one's time ends here."""
        exchange, settings = self.exchange, self._engine.settings
        if exchange is None:
            if now >= self.deadline:
                self._out_of_time()
            return
        sending = not exchange.sending.done and not exchange.tunnel
        if sending and now >= self.deadline:
            self._break_or_answer(self._engine.concierge.too_slow(waiting_for_client=True))
            return
        if self.touched:
            self.touched, self.quiet = False, 0.0
            return
        self.quiet += elapsed
        if self._full:
            limit = settings.client_stall
        elif self._eof or exchange.one_way:
            limit = settings.half_close_grace
        elif exchange.tunnel:
            return
        elif sending and not self._upstream_is_full:
            limit = settings.request_idle
        else:
            limit, sending = settings.response_idle, False
        if self.quiet >= limit:
            self._break_or_answer(self._engine.concierge.too_slow(waiting_for_client=sending))

    def _out_of_time(self) -> None:
        flushing = self._lingered is not None and self.transport.get_write_buffer_size() > 0
        if flushing and self.quiet < self._engine.settings.client_stall:
            self.quiet += self._engine.settings.linger
            self.deadline += self._engine.settings.linger
        elif self._lingered is not None or not self._buffer or self.transport.is_closing():
            self.transport.abort()
        else:
            self._refuse(Refused(408, "slow head"))

    def is_tunnel(self) -> bool:
        return self.exchange is not None and self.exchange.tunnel

    async def is_still_welcome(self) -> bool:
        """Would this WebSocket be let in today? Its workspace may sleep: that ends it by itself."""
        identity, to, access = self._identity, self._to, self._engine.access
        if identity is None or identity.credential is None or to is None or to.target is None:
            return True  # not to a workspace
        principal = await access.principal(identity.key, identity.credential)
        target = await access.target(to.target.id)
        return principal is not None and target is not None and principal.may_open(target)

    def drain(self) -> None:
        """The server is going: what is at rest closes now, what is under way after its answer."""
        self.closes = True
        exchange = self.exchange
        endless = exchange is not None and (exchange.tunnel or exchange.is_stream)
        if endless or (self.is_idle() and not self._buffer):
            self.transport.close()
