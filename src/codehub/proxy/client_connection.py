"""Read a client's requests, one at a time and in order, and forward each.

A request whose principal, workspace and idle upstream connection are all cached is forwarded inside the
callback it arrived in. Anything else (an unknown credential, a sleeping workspace, a new upstream connection)
runs in one task per connection; bytes the client sends meanwhile wait in a buffer of ``READ_AHEAD`` bytes.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, cast

import structlog

from codehub.proxy.access.admission_cache import CachedAdmission
from codehub.proxy.access.policy import is_same_origin
from codehub.proxy.access.rechecks import Verdict
from codehub.proxy.answers import Answer, refused, unauthorized
from codehub.proxy.connection import READ_AHEAD, ConnectionBase, ConnectionState
from codehub.proxy.documents.insertion import Insertion, wants_script
from codehub.proxy.engine import ProxyEngine
from codehub.proxy.http1.framing import FramingError
from codehub.proxy.http1.request import InvalidRequest, RequestHead, parse_request
from codehub.proxy.identity import Identity, identify
from codehub.proxy.routing import Route, RouteKind
from codehub.proxy.upstream.destinations import Destination
from codehub.proxy.upstream.exchange import Exchange
from codehub.proxy.upstream.headers import HeaderPolicy, forwarded_lines, upstream_fields
from codehub.proxy.upstream.pool import ConnectFailed, UpstreamConnection, keep_alive

log = structlog.get_logger(__name__)

LINGER_LIMIT = 1024 * 1024  # bytes discarded in LINGERING before the connection is aborted
# Pays for: HTTP through the proxy, where a page alternates between field blocks: for scripts, for styles, for data.
MAX_CACHED_ADMISSIONS = 4


class ClientConnection(ConnectionBase):
    """A client's connection: parses heads, decides access, starts exchanges."""

    __slots__ = (
        "_address",
        "_cached_admissions",
        "_identity",
        "_reading",
    )

    def __init__(self, engine: ProxyEngine) -> None:
        super().__init__(engine)
        self._address = b""
        self._reading = False  # a part of a head has arrived
        self._cached_admissions: list[CachedAdmission] = []  # newest first
        self._identity: Identity | None = (
            None  # of the last request; whoever opened a tunnel is checked again
        )

    # What the transport calls ---------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        engine = self._engine
        self.transport.set_write_buffer_limits(engine.settings.write_high, engine.settings.write_low)
        keep_alive(transport)
        peer = transport.get_extra_info("peername")
        self._address = peer[0].encode() if isinstance(peer, tuple) else b"127.0.0.1"
        if not engine.admit(self):
            self._answer_and_close(engine.admission.overloaded())

    def data_received(self, data: bytes) -> None:
        self.touched = True
        if self.state is ConnectionState.LINGERING:
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
            # Pays for: HTTP through the proxy. A repetition is compared with its cached admission, not parsed.
            if not (self._cached_admissions and self._forward_cached(self._buffer)):
                self._read_head()
        elif len(self._buffer) > READ_AHEAD:
            self._update_reading()

    def eof_received(self) -> bool:
        """Handle a half-close: wait for a pending answer, close in mid-request."""
        exchange = self.exchange
        self.quiet = 0.0
        if exchange is not None and self.state is ConnectionState.TUNNEL:
            return exchange.client_eof()
        if exchange is not None and exchange.sending.done:
            # No browser half-closes an event stream: the tab was closed.
            self._eof = True
            return not exchange.is_stream
        if self.state is ConnectionState.ADMITTING:
            self._eof = True
            return True
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._engine.forget(self)
        if self._task is not None:
            self._task.cancel()
        exchange, self.exchange = self.exchange, None
        if exchange is not None:
            exchange.abandon()
        self._transition(ConnectionState.CLOSED)
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

    def _forget(self) -> None:
        self._cached_admissions.clear()

    # Reading requests -----------------------------------------------------------------------------

    def _read_head(self) -> None:
        buffer = self._buffer
        if buffer.startswith(b"\r\n"):  # an extra CRLF after the previous body: RFC 9112, 2.2
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
            request = parse_request(head)
        except InvalidRequest as refusal:
            self._refuse(refusal)
            return
        self.closes = request.wants_close or self._engine.draining
        if not request.host:
            request.host = self._engine.public_authority
        self._dispatch(request)

    def _wait_for_head(self, buffer: bytes) -> None:
        settings = self._engine.settings
        if len(buffer) >= settings.max_head:
            self._refuse(InvalidRequest(431, "head too large"))
        elif buffer.count(b"\n") != buffer.count(b"\r\n") or b"\0" in buffer:
            self._refuse(InvalidRequest(400, "malformed"))
        elif not self._reading:
            # Set once, at the first byte: later bytes must not extend it.
            self._reading = True
            self.deadline = self._loop.time() + settings.head_timeout

    def _refuse(self, refusal: InvalidRequest) -> None:
        self._engine.metrics.refusals[refusal.cause] += 1
        self._answer_and_close(refused(refusal.status, refusal.cause))

    def _dispatch(self, request: RequestHead) -> None:
        engine = self._engine
        self._reading = False
        self.quiet = 0.0
        self.deadline = float("inf")
        route = engine.router.match(request.host, request.target)
        if route.kind is RouteKind.API:
            if request.websocket and not is_same_origin(request, engine.scheme):
                self._answer(request, engine.admission.bad_origin())
                return
            if request.has_body:  # forwarded without a sign-in, so the whole of it gets a timeout
                self.deadline = self._loop.time() + engine.settings.api_request_timeout
            self._forward(request, None, route.path, engine.api)
            return
        identity = self._identity = self._identify(request, route)
        if route.kind is RouteKind.WORKSPACE:
            # Pays for: HTTP through the proxy with new connections. What is cached needs no task.
            recalled = engine.admission.recall(request, route, identity, self._loop.time())
            if recalled is not None:
                to, until = recalled
                rest = self._fields_for(request, identity, to)
                if CachedAdmission.may_be_kept(request, route, scheme=engine.scheme):
                    self._cache_admission(request, route, to, rest=rest, until=until)
                self._send(request, _head(request, to.path(route), rest), to)
                return
        self._spawn(self._admit(request, route, identity))

    def _cache_admission(
        self, request: RequestHead, route: Route, to: Destination, *, rest: bytes, until: float
    ) -> None:
        generation, longest = self._engine.access.generation, self._engine.settings.max_head
        fresh = CachedAdmission(
            request, route, to, rest=rest, until=until, generation=generation, longest=longest
        )
        others = [known for known in self._cached_admissions if known.block.raw != request.block.raw]
        self._cached_admissions = [fresh, *others[: MAX_CACHED_ADMISSIONS - 1]]

    def _forward_cached(self, head: bytes) -> bool:
        """Forward a request that differs from a cached admission in method and path only; else return False."""
        engine, now = self._engine, self._loop.time()
        generation = engine.access.generation
        for known in self._cached_admissions:
            if now >= known.until or known.generation != generation:
                self._cached_admissions.remove(known)
                return False
            exchange = known.exchange_for(head, self)
            if exchange is not None:
                break
        else:
            return False
        to = known.destination
        upstream = engine.pool.take(to.idle_connections)
        if upstream is None:
            return False
        engine.metrics.requests_total += 1
        self._buffer, self._reading, self.closes = b"", False, engine.draining
        self._to = to
        if to.requests is not None:
            to.requests.began(now, by_person=known.is_navigation)
        self._begin(exchange, upstream)
        return True

    def _identify(self, request: RequestHead, route: Route) -> Identity:
        return identify(
            request.fields.get(b"cookie"),
            request.fields.get(b"authorization"),
            names=self._engine.cookies,
            on_workspace_host=route.on_workspace_host,
            workspace_id=route.workspace_id,
        )

    # Forwarding -----------------------------------------------------------------------------------

    def _forward(self, request: RequestHead, identity: Identity | None, path: bytes, to: Destination) -> None:
        """Forward a request. ``identity``: given to strip CodeHub's own secrets, None (the API) to keep them."""
        self._send(request, _head(request, path, self._fields_for(request, identity, to)), to)

    def _fields_for(self, request: RequestHead, identity: Identity | None, to: Destination) -> bytes:
        forwarded = self._forwarded_lines(request, to.policy)
        return upstream_fields(
            request,
            identity=identity,
            forwarded=forwarded,
            policy=to.policy,
            uncompressed=self._gets_script(request, to),
        )

    def _gets_script(self, request: RequestHead, to: Destination) -> bool:
        """Whether the answer gets the tab's script, if it is a document: of the IDE's port, in a whole tab."""
        return (
            wants_script(request)
            and to.target is not None
            and to.port is None
            and to.target.tab_script
            and self._engine.settings.tab_script
        )

    def _send(self, request: RequestHead, head: bytes, to: Destination) -> None:
        insertion = None
        if self._gets_script(request, to):
            insertion = Insertion(self._engine.tab_script, request.host)
        exchange = Exchange(self, request, head, to.policy, insertion)
        self._begin_activity(to, request)
        # Pays for: HTTP through the proxy. Only replayable requests use an idle connection: the upstream may have
        # closed it already.
        upstream = self._engine.pool.take(to.idle_connections) if request.is_replayable else None
        if upstream is None:
            self._spawn(self._connect(exchange, to))
        else:
            self._begin(exchange, upstream)

    def _begin(self, exchange: Exchange, upstream: UpstreamConnection) -> None:
        self._transition(ConnectionState.EXCHANGING)
        self.exchange = exchange
        exchange.start(upstream)

    def _forwarded_lines(self, request: RequestHead, policy: HeaderPolicy) -> bytes:
        engine = self._engine
        claimed = request.fields.get(b"x-forwarded-for") if engine.trusts(self._address) else None
        chain = b"%b, %b" % (claimed, self._address) if claimed else self._address
        return forwarded_lines(
            chain=chain, peer=self._address, scheme=engine.scheme, host=request.host, prefix=policy.prefix
        )

    async def _admit(self, request: RequestHead, route: Route, identity: Identity) -> None:
        outcome = await self._engine.admission.admit(request, route, identity)
        self._task = None
        if isinstance(outcome, Answer):
            self._answer(request, outcome)
        else:
            self._forward(request, identity, outcome.path, outcome.to)

    async def _connect(self, exchange: Exchange, to: Destination) -> None:
        try:
            upstream = await self._engine.connector.connect(to)
        except ConnectFailed:
            answer = await self._engine.admission.unreachable(exchange.request, to)
            self._end_activity()
            self._task = None
            self._answer(exchange.request, answer)
            return
        if to.visit_ends_at is not None and not await self._may_still_visit(to):
            upstream.drop()
            self._end_activity()
            self._task = None
            self._answer(exchange.request, unauthorized())
            return
        self._task = None
        self._begin(exchange, upstream)
        if self._full:
            exchange.client_full(full=True)
        if self._buffer and not exchange.sending.done:
            data, self._buffer = self._buffer, b""
            self.data_received(data)
        if self._eof and not exchange.sending.done:  # the client closed in mid-body while we were connecting
            self.transport.abort()
            return
        self._update_reading()

    async def _may_still_visit(self, to: Destination) -> bool:
        """Whether a share that was taken back while we connected had let this visitor in. No recheck saw them."""
        assert self._identity is not None
        verdict = await self._engine.admission.recheck(self._identity, to, is_tunnel=False)
        return verdict is Verdict.FINE

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._transition(ConnectionState.ADMITTING)
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._on_task_done)

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        log.error("a request could not be handled", exc_info=error)
        self._task = None
        self._end_activity()
        self._answer_and_close(self._engine.admission.failed())

    def replay(self, exchange: Exchange) -> None:
        """Send the request again over a new upstream connection. Replayable requests only."""
        self.exchange = None
        if self._to is not None and not self.transport.is_closing():
            again = Exchange(self, exchange.request, exchange.head, self._to.policy, exchange.insertion)
            self._spawn(self._connect(again, self._to))

    async def recheck(self) -> None:
        """End a WebSocket whose person lost access, all of a visitor's, and any exchange with a paused workspace.

        Other phases are not checked: when the workspace stops, its upstream connection ends.
        """
        exchange, identity, to = self.exchange, self._identity, self._to
        if exchange is None or identity is None or to is None or to.target is None:
            return
        verdict = await self._engine.admission.recheck(identity, to, is_tunnel=exchange.tunnel)
        target = await self._engine.access.target(to.target.id)  # as the verdict read it: it is cached
        if self.exchange is not exchange:  # it ended meanwhile
            return
        match verdict:
            case Verdict.ENDED:
                self.cut()
            case Verdict.PAUSED if target is not None:
                self._break_or_answer(self._engine.admission.broken(exchange.request, target))


def _head(request: RequestHead, path: bytes, rest: bytes) -> bytes:
    return b"%b %b HTTP/1.1\r\n%b" % (request.method, path, rest)
