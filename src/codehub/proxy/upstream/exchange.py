"""One request and its response, relayed between a client and an upstream as bytes.

Runs entirely in transport callbacks: no task, no queue, no buffer. Whoever cannot take more bytes stops the
other side from being read. A response counts as complete only when its framing says so; if the upstream
ends before, the client's connection is reset, so a half download never looks like a whole one.
"""

import asyncio
from typing import Protocol

from codehub.proxy.http1.framing import Body, FramingError, UntilClose
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.http1.response import BadResponse, ResponseHead, read_response, recall_response
from codehub.proxy.upstream.headers import Policy, client_head
from codehub.proxy.upstream.pool import UpstreamConnection
from codehub.proxy.upstream.tunnel import Tunnel

MAX_RESPONSE_HEAD = 64 * 1024
MAX_INTERIM = 32


class ClientSide(Protocol):
    """What an exchange needs of the client's connection."""

    closes: bool  # after the response under way
    touched: bool  # bytes moved since the last sweep

    @property
    def transport(self) -> asyncio.Transport: ...

    def exchange_done(self, *, close: bool) -> None:
        """The response ended where its framing says; ``close``: the connection ends with it."""

    def replay(self, exchange: "Exchange") -> None:
        """The kept upstream connection was dead before it answered: send the request again."""

    def upstream_broke(self, exchange: "Exchange") -> None: ...

    def upstream_full(self, *, full: bool) -> None: ...

    def tunnel_opened(self) -> None: ...

    def tunnel_closed(self) -> None: ...

    def join(self, upstream: UpstreamConnection) -> Tunnel: ...


class Exchange:
    __slots__ = (
        "_client",
        "_interim",
        "_joined",
        "_one_way",
        "_partial",
        "_paused",
        "_policy",
        "_receiving",
        "_response",
        "_simple",
        "_upstream",
        "head",
        "is_stream",
        "request",
        "sending",
        "spent",
        "tunnel",
    )

    def __init__(self, client: ClientSide, request: RequestHead, head: bytes, policy: Policy) -> None:
        self.request = request
        self.head = head  # as sent upstream; kept to send it again
        self.sending: Body = request.body()
        self.tunnel = False
        self.is_stream = False
        self._client = client
        self._policy = policy
        self._upstream: UpstreamConnection | None = None
        self._response: ResponseHead | None = None
        self._receiving: Body | None = None
        self._partial = b""
        self._interim = 0
        self._paused = False  # the upstream is not read, until the client has taken more
        self._joined: Tunnel | None = None
        self._one_way = False  # one side of the tunnel has said its last
        self._simple = request.method == b"GET" and request.minor and not request.block.has_body
        self.spent = False  # holds traces of a request; one without may carry the same head again

    @property
    def started(self) -> bool:
        """The client has seen a part of the response."""
        return self._response is not None

    def start(self, upstream: UpstreamConnection) -> None:
        self.spent = True
        self._upstream = upstream
        upstream.exchange = self
        upstream.transport.write(self.head)

    # From the client ------------------------------------------------------------------------------

    def client_data(self, data: bytes) -> bytes:
        """Forward what belongs to this request; give back what lies behind it. Raises FramingError."""
        upstream = self._upstream
        if upstream is None:  # a replay is connecting; there is no body then
            return data
        if self.tunnel:
            upstream.transport.write(data)
            return b""
        if self.sending.done:
            return data
        forward, rest = self.sending.feed(data)
        if forward:
            upstream.transport.write(forward)
        return rest

    def client_eof(self) -> bool:
        """Pass a half-close on. True: the other direction is still open."""
        if self._one_way or self._upstream is None:
            return False
        self._one_way = True
        self._part()
        self._upstream.transport.write_eof()
        return True

    @property
    def one_way(self) -> bool:
        return self._one_way

    def client_full(self, *, full: bool) -> None:
        if self._upstream is not None:
            transport = self._upstream.transport
            self._paused = full
            if full:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def abandon(self) -> None:
        """The client is gone, or its time is up: the upstream learns it by a lost connection."""
        self._part()
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.drop()

    # From the upstream ----------------------------------------------------------------------------

    def upstream_data(self, data: bytes) -> None:
        client = self._client
        client.touched = True
        if self.tunnel:
            client.transport.write(data)
            return
        try:
            receiving = self._receiving
            if receiving is None:
                if self._partial:
                    data = self._partial + data
                if not (self._simple and self._relay_at_once(data)):
                    self._on_head(data)
                return
            forward, rest = receiving.feed(data)
        except (BadResponse, FramingError):
            self._fail()
            return
        if forward:
            client.transport.write(forward)
        if receiving.done:
            self._finish(rest)

    def upstream_eof(self) -> bool:
        """True keeps our direction open: a tunnel may close one side first."""
        if not self.tunnel or self._one_way:
            return False
        self._one_way = True
        self._part()
        self._client.transport.write_eof()
        return True

    def upstream_full(self, *, full: bool) -> None:
        self._client.upstream_full(full=full)

    def upstream_lost(self, exc: Exception | None) -> None:
        self._part()
        upstream, self._upstream = self._upstream, None
        if upstream is None:
            return
        if self.tunnel:
            self._client.tunnel_closed()
        elif isinstance(self._receiving, UntilClose) and exc is None:
            self._client.exchange_done(close=True)
        elif self._receiving is None and not self._partial and upstream.used and self.request.is_replayable:
            # The upstream gave up a kept connection while the request was on its way to it.
            self._client.replay(self)
        else:
            self._client.upstream_broke(self)

    def _relay_at_once(self, data: bytes) -> bool:
        """The usual case of a small answer: all of it in one piece, behind a head that was read before."""
        client, upstream = self._client, self._upstream
        if upstream is None or client.closes:
            return False
        response = upstream.idle_connections.last_head
        if response is None or not data.startswith(response.raw):
            response = recall_response(data[: data.find(b"\r\n\r\n", 0, MAX_RESPONSE_HEAD) + 4])
            if response is None:
                return False
            upstream.idle_connections.last_head = response
        size = response.simple_length
        if size != len(data) - len(response.raw) or response.plain is None:
            return False
        client.transport.write(response.plain + data[-size:] if size else response.plain)
        self._upstream = None
        if self._paused:  # by what was just written
            self._paused = False
            upstream.transport.resume_reading()
        self._partial, self._interim, self.spent = b"", 0, False
        upstream.release()
        client.exchange_done(close=False)
        return True

    def _on_head(self, data: bytes) -> None:
        client, request = self._client, self.request
        while True:
            end = data.find(b"\r\n\r\n", 0, MAX_RESPONSE_HEAD)
            if end < 0:
                if len(data) >= MAX_RESPONSE_HEAD:
                    raise BadResponse("head too large")
                self._partial = data
                return
            end += 4
            response = read_response(data[:end])
            data = data[end:]
            if response.status >= 200:
                break
            if response.status == 101:
                self._switch(response, data)
                return
            self._interim += 1
            if self._interim > MAX_INTERIM:
                raise BadResponse("interim responses without end")
            if request.minor:  # clients of HTTP/1.0 do not know interim responses
                client.transport.write(client_head(response, request, self._policy, close=False))
        self._partial = b""
        receiving = response.body(request.method, decode=not request.minor)
        if isinstance(receiving, UntilClose) or not self.sending.done:
            client.closes = True
        head = client_head(response, request, self._policy, close=client.closes)
        forward, rest = receiving.feed(data) if data else (b"", b"")
        self._response = response  # from here on the client sees it
        client.transport.write(head + forward if forward else head)
        self._receiving = receiving
        self.is_stream = response.is_stream
        if receiving.done:
            self._finish(rest)

    def _switch(self, response: ResponseHead, data: bytes) -> None:
        fields = response.fields
        if not self.request.websocket or fields.get(b"upgrade", b"").lower() != b"websocket":
            raise BadResponse("an upgrade nobody asked for")
        self._response, self.tunnel, self._partial = response, True, b""
        head = client_head(response, self.request, self._policy, close=False)
        self._client.transport.write(head + data if data else head)
        self._client.tunnel_opened()
        if self._upstream is not None:
            self._joined = self._client.join(self._upstream)

    def _part(self) -> None:
        """Before either end closes: writing to a closed transport is an error."""
        joined, self._joined = self._joined, None
        if joined is not None:
            joined.part()

    def _finish(self, rest: bytes) -> None:
        upstream, response = self._upstream, self._response
        self._upstream = None
        if upstream is not None and response is not None:
            # Bytes behind the end answer a question nobody asked.
            if rest or response.upstream_closes or not self.sending.done:
                upstream.drop()
            else:
                if self._paused:
                    upstream.transport.resume_reading()
                upstream.release()
        self._client.exchange_done(close=not self.sending.done)

    def _fail(self) -> None:
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.drop()
        self._client.upstream_broke(self)
