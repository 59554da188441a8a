"""Relay one request and its response between a client and an upstream.

Runs entirely in transport callbacks: no task, no queue, no buffer. Backpressure: while one side's write buffer
is full, the other side is not read. A response is complete only when its framing says so; if the upstream ends
before, the client's connection is reset, so a truncated download never looks complete.
"""

import asyncio
from functools import partial
from typing import Protocol

from codehub.proxy.documents.insertion import DocumentBody, Insertion
from codehub.proxy.http1.framing import Body, ChunkedBody, FramingError, UntilClose
from codehub.proxy.http1.request import RequestHead
from codehub.proxy.http1.response import BadResponse, ResponseHead, read_response, recall_response
from codehub.proxy.upstream.headers import HeaderPolicy, client_head
from codehub.proxy.upstream.pool import UpstreamConnection
from codehub.proxy.upstream.tunnel import Tunnel

MAX_RESPONSE_HEAD = 64 * 1024
MAX_INTERIM = 32


class ClientSide(Protocol):
    """The client's connection, as an exchange sees it."""

    closes: bool  # after the current response
    touched: bool  # bytes moved since the last sweep

    @property
    def transport(self) -> asyncio.Transport: ...

    def exchange_done(self, *, close: bool) -> None:
        """The response is complete. ``close``: close the connection after it."""

    def replay(self, exchange: "Exchange") -> None:
        """Send the request again: the idle upstream connection was dead."""

    def upstream_broke(self, exchange: "Exchange") -> None: ...

    def upstream_full(self, *, full: bool) -> None: ...

    def tunnel_opened(self) -> None: ...

    def tunnel_closed(self) -> None: ...

    def join(self, upstream: UpstreamConnection, early: bytes) -> Tunnel:
        """Build the tunnel. ``early``: what the upstream has sent through it already."""


class Exchange:
    """One request and its response, or a tunnel after 101."""

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
        "insertion",
        "is_stream",
        "request",
        "sending",
        "spent",
        "tunnel",
    )

    def __init__(
        self,
        client: ClientSide,
        request: RequestHead,
        head: bytes,
        policy: HeaderPolicy,
        insertion: Insertion | None = None,
    ) -> None:
        self.request = request
        self.head = head  # as sent upstream; kept for a replay
        self.insertion = insertion  # into an HTML document; None: everything passes as it is
        self.sending: Body = request.body()
        self.tunnel = False
        self.is_stream = False
        self._client = client
        self._policy = policy
        self._upstream: UpstreamConnection | None = None
        self._response: ResponseHead | None = None
        self._receiving: Body | DocumentBody | None = None
        self._partial = b""
        self._interim = 0
        self._paused = False  # the upstream is not read: the client's write buffer is full
        self._joined: Tunnel | None = None
        self._one_way = False  # one side of the tunnel is half-closed
        is_plain = request.method == b"GET" and request.minor and not request.block.has_body
        self._simple = is_plain and insertion is None
        self.spent = False  # holds state of a request; False: may be reused for an equal head

    @property
    def started(self) -> bool:
        """Whether a part of the final response was written to the client."""
        return self._response is not None

    def start(self, upstream: UpstreamConnection) -> None:
        """Send the head over ``upstream``."""
        self.spent = True
        self._upstream = upstream
        upstream.exchange = self
        upstream.transport.write(self.head)

    # From the client ------------------------------------------------------------------------------

    def client_data(self, data: bytes) -> bytes:
        """Forward bytes of this request; return those behind its end. Raises FramingError."""
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
        """Forward a half-close. True: the other direction is still open."""
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
        """Pause or resume reading from the upstream: backpressure of the client."""
        if self._upstream is not None:
            transport = self._upstream.transport
            self._paused = full
            if full:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def abandon(self) -> None:
        """Abort the upstream connection: the client left, or timed out."""
        self._part()
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            upstream.drop()

    def go_away(self, seconds: float) -> bool:
        """Tell both ends of a tunnel that this proxy ends. False: they cannot be told.

        Each ends by itself then, within ``seconds`` of being told: the exchange has no part in it any more.
        """
        joined, self._joined = self._joined, None
        if joined is None or self._upstream is None or not joined.go_away(seconds):
            return False
        upstream, self._upstream = self._upstream, None
        upstream.leave()
        return True

    def end_stream(self) -> None:
        """End a chunked response here, if no chunk is half sent: its reader sees an end, not a broken connection."""
        if isinstance(self._receiving, ChunkedBody):
            self._client.transport.write(self._receiving.last_chunk())

    # From the upstream ----------------------------------------------------------------------------

    def upstream_data(self, data: bytes) -> None:
        """Forward bytes of the response to the client."""
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
                # Pays for: HTTP through the proxy. Most answers of an IDE are small and arrive whole.
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
        """Forward a half-close.

        True keeps our direction open: a tunnel may close one side first.
        """
        if not self.tunnel or self._one_way:
            return False
        self._one_way = True
        self._part()
        self._client.transport.write_eof()
        return True

    def upstream_full(self, *, full: bool) -> None:
        self._client.upstream_full(full=full)

    def upstream_lost(self, exc: Exception | None) -> None:
        """Finish, replay or fail the exchange: its upstream connection has ended."""
        self._part()
        upstream, self._upstream = self._upstream, None
        if upstream is None:
            return
        if self.tunnel:
            self._client.tunnel_closed()
        elif isinstance(self._receiving, UntilClose) and exc is None:
            self._client.exchange_done(close=True)
        elif self._receiving is None and not self._partial and upstream.used and self.request.is_replayable:
            # The upstream closed the idle connection while the request was on its way.
            self._client.replay(self)
        else:
            self._client.upstream_broke(self)

    def _relay_at_once(self, data: bytes) -> bool:
        """Relay a small response in one write: it arrived whole, with a cached head. False: it did not."""
        client, upstream = self._client, self._upstream
        if upstream is None or client.closes:
            return False
        end = data.find(b"\r\n\r\n", 0, MAX_RESPONSE_HEAD) + 4
        response = recall_response(data[:end])
        if response is None or response.plain is None:
            return False
        size = response.simple_length
        if size != len(data) - end:
            return False
        client.transport.write(response.plain + data[-size:] if size else response.plain)
        self._upstream = None
        if self._paused:  # by the write above
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
        body = response.body(request.method, decode=not request.minor)
        receiving: Body | DocumentBody = body
        if isinstance(body, UntilClose) or not self.sending.done:
            client.closes = True
        document = self.insertion.begin(response, body) if self.insertion is not None else None
        if document is None:
            head = client_head(response, request, self._policy, close=client.closes)
        else:  # its head follows once the script's place is known
            document.write_head = partial(
                client_head, request=request, policy=self._policy, close=client.closes
            )
            receiving, head = document, b""
        forward, rest = receiving.feed(data) if data else (b"", b"")
        self._response = response  # ``started`` from here on
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
            self._joined = self._client.join(self._upstream, data)

    def _part(self) -> None:
        """End the tunnel. Call it before either end closes: writing to a closed transport is an error."""
        joined, self._joined = self._joined, None
        if joined is not None:
            joined.part()

    def _finish(self, rest: bytes) -> None:
        upstream, response = self._upstream, self._response
        self._upstream = None
        if upstream is not None and response is not None:
            # Bytes behind the end belong to no request: do not reuse the connection.
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
