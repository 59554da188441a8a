"""Check, time and log every request: size, media type, headers, metrics.

One plain ASGI layer without a framework class: with thousands of requests a second each wrapper costs, and
event streams must pass through unbuffered. Knows neither routes nor people; it logs what the layers below put
into the scope (``codehub.user_id`` and the matched route).

Every response begins within ``DEADLINE_SECONDS`` of the request or of the last piece of its body, or is a 503: a
slow upload does not count. A response that has begun has no deadline, so streams may last.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Sequence
from email.utils import formatdate
from typing import Any

import structlog
from prometheus_client import Histogram
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from codehub.api import problems
from codehub.kit.clock import monotonic

log = structlog.get_logger("codehub.access")
_stdlib_log = logging.getLogger("codehub.access")

MAX_BODY_BYTES = 1024 * 1024
MAX_UPLOAD_BYTES = 64 * 1024**3
DEADLINE_SECONDS = 10.0
UPLOAD_DEADLINE_SECONDS = 60.0
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_WITH_BODY = frozenset({"POST", "PUT", "PATCH", "DELETE"})

SECONDS = Histogram(
    "codehub_http_request_seconds",
    "Time from the request to the first byte of its answer",
    ["method", "route", "status"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)

DENY_ALL_POLICY = b"default-src 'none'; frame-ancestors 'none'"
_HEADERS: Sequence[tuple[bytes, bytes]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
)
_HSTS = (b"strict-transport-security", b"max-age=31536000")


# WebSockets of workspaces' own programs go through the proxy; the API has these.
_SOCKETS = re.compile(r"/api/v1/workspaces/[0-9a-f-]{36}/(ssh|exec|terminal|ports/[0-9]{1,5}/tunnel)")
# Bodies of any kind and size, which are passed on and not kept.
_UPLOADS = re.compile(r"/api/v1/workspaces/[0-9a-f-]{36}/files/(content|archive)")


class RequestMiddleware:
    """The outermost ASGI layer."""

    def __init__(self, app: ASGIApp, *, https: bool) -> None:
        self._app = app
        self._headers = [*_HEADERS, _HSTS] if https else list(_HEADERS)
        self._durations = Durations()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and not _SOCKETS.fullmatch(scope["path"]):
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await _Request(scope, receive, send, middleware=self).run(self._app)

    def finish_headers(
        self, headers: list[tuple[bytes, bytes]], request_id: str
    ) -> list[tuple[bytes, bytes]]:
        """Add the headers that every response carries."""
        names = {name for name, _ in headers}
        finished = [
            *headers,
            *self._headers,
            (b"date", formatdate(usegmt=True).encode()),
            (b"x-request-id", request_id.encode()),
        ]
        if b"content-security-policy" not in names:
            finished.append((b"content-security-policy", DENY_ALL_POLICY))
        if b"cache-control" not in names:
            finished.append((b"cache-control", b"no-store"))
        return finished

    def measure(self, scope: Scope, status: int, seconds: float) -> None:
        """Record the time to the first byte."""
        self._durations.observe(scope, status, seconds)


class _Request:
    """One request: its deadline, its counted body, its status."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, *, middleware: RequestMiddleware) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._middleware = middleware
        self._started_at = monotonic()
        self._received = 0
        self._deadline: asyncio.Timeout | None = None
        self.status = 0
        self.request_id = ""
        self._is_upload = scope["method"] == "PUT" and _UPLOADS.fullmatch(scope["path"]) is not None
        self._max_bytes = MAX_UPLOAD_BYTES if self._is_upload else MAX_BODY_BYTES
        self._deadline_seconds = UPLOAD_DEADLINE_SECONDS if self._is_upload else DEADLINE_SECONDS
        self._length = b""
        self._media_type = b""
        self._chunked = False
        for name, value in scope["headers"]:
            if name == b"x-request-id":
                self.request_id = value.decode("latin-1")
            elif name == b"content-length":
                self._length = value
            elif name == b"content-type":
                self._media_type = value
            elif name == b"transfer-encoding":
                self._chunked = True
        if not _REQUEST_ID.fullmatch(self.request_id):
            self.request_id = secrets.token_hex(8)

    async def run(self, app: ASGIApp) -> None:
        structlog.contextvars.bind_contextvars(request_id=self.request_id)
        try:
            refusal = self._find_refusal()
            if refusal is not None:
                await problems.problem(refusal, problems.KINDS[refusal].example)(
                    self._scope, self._receive, self.send
                )
            else:
                await self._run_with_deadline(app)
        except Exception as error:
            log.error("request failed", path=self._scope["path"], exc_info=error)
            if self.status:
                raise  # a part of the response was sent: the server aborts the connection
            await problems.internal()(self._scope, self._receive, self.send)
        finally:
            self._log_access()

    async def _run_with_deadline(self, app: ASGIApp) -> None:
        deadline = asyncio.timeout(self._deadline_seconds)
        try:
            async with deadline:
                self._deadline = deadline
                try:
                    await app(self._scope, self.receive, self.send)
                finally:
                    self._deadline = None
        except TimeoutError:
            if not deadline.expired():
                raise
            answer = problems.unavailable("This takes too long: the database, or an engine, does not answer.")
            await answer(self._scope, self._receive, self.send)

    def _find_refusal(self) -> str | None:
        if self._length and (len(self._length) > 15 or int(self._length) > self._max_bytes):
            return "too_large"
        if self._is_upload:
            return None
        if self._scope["method"] not in _WITH_BODY or not (self._chunked or self._length.strip(b"0")):
            return None
        media_type = self._media_type.partition(b";")[0].strip().lower()
        return None if media_type == b"application/json" else "unsupported_media_type"

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            if self._received > self._max_bytes:
                raise HTTPException(413)
            if not self.status:
                self._set_deadline(asyncio.get_running_loop().time() + self._deadline_seconds)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._set_deadline(None)
            headers = self._middleware.finish_headers(list(message.get("headers", ())), self.request_id)
            message = {**message, "headers": headers}
            # To the first byte: an event stream that lasts for hours is not a slow request.
            self._middleware.measure(self._scope, self.status, monotonic() - self._started_at)
        await self._send(message)

    def _set_deadline(self, at: float | None) -> None:
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(at)

    def _log_access(self) -> None:
        if not _stdlib_log.isEnabledFor(logging.INFO):  # asked of structlog, it builds a logger first
            return
        fields: dict[str, Any] = {}
        if (user_id := self._scope.get("codehub.user_id")) is not None:
            fields["user_id"] = str(user_id)
        if (workspace_id := self._scope.get("path_params", {}).get("workspace_id")) is not None:
            fields["workspace_id"] = str(workspace_id)
        log.info(
            "request",
            method=self._scope["method"],
            path=self._scope["path"],
            status=self.status or None,
            duration_ms=round((monotonic() - self._started_at) * 1000, 1),
            **fields,
        )


class Durations:
    """Observes the time to the first byte.

    Labelled by route template, not by path, of which there is no end.
    """

    def __init__(self) -> None:
        self._children: dict[tuple[str, str, int], Any] = {}

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        key = (scope["method"], getattr(scope.get("route"), "path", "other"), status)
        child = self._children.get(key)
        if child is None:
            if len(self._children) > 2000:  # clients may invent methods
                key = ("other", key[1], status)
            child = self._children[key] = SECONDS.labels(key[0], key[1], str(status))
        child.observe(seconds)
