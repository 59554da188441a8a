"""Client of the Kubernetes API: JSON in and out, failures sorted into kinds.

All calls of this package to the API server go through here, each with a timeout. Failures are of these kinds:

- ``NotFound``, ``Conflict``: answers, which callers expect and handle. A conflict is a name that is taken, or an
  object that is not the one (uid) or not as it was (resource version) when the caller read it;
- ``CallRefused``: the server answered with another error; the message is its own, or an admission plug-in's;
- ``EffectError`` with ``K8S_API_ERROR``: it did not answer, is overloaded, does not know us, or does not let us do such
  a thing at all, which a server that has just started says while it has not read the roles. Nothing follows about pods.

``get`` and ``list`` send no resource version, so the server answers with the newest state, not from a cache that is
behind, unless a caller asks for that.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus

import aiohttp

from codehub.domain.errors import EffectError, FailureCode
from codehub.runtimes.kubernetes.access import Access, AccessError
from codehub.runtimes.kubernetes.names import Document

CALL_SECONDS = 30.0
_CONNECT_SECONDS = 10.0
_CLOSE_SECONDS = 2.0
# Not compressed: packing a listing of 500 pods takes the API server longer than sending it.
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity"}
_PATIENCE = 3
_LONGEST_PAUSE_SECONDS = 2.0
_NOT_ALLOWED = re.compile(r'forbidden: User ".*" cannot \w+ resource')
"""The authorizer's words. Quotas and admission plug-ins, which judge the object, have others."""


class NotFound(Exception):
    """The object does not exist."""


class Conflict(Exception):
    """The name is taken, or the object has changed or been replaced since it was read."""


class CallRefused(Exception):
    """The server refused the call; the message is its own."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Expired(Exception):
    """A watch cannot go on from here: read again."""


class SilentStream(Exception):
    """Nothing came for a while: there is nothing to say, or the connection is dead."""


class ApiClient:
    """Connections to one API server; connects on first use. Made in a running event loop."""

    def __init__(self, access: Access, *, call_seconds: float = CALL_SECONDS) -> None:
        self.access = access
        self._timeout = aiohttp.ClientTimeout(total=call_seconds, sock_connect=_CONNECT_SECONDS)
        # No limit: each watch and each log that is followed keeps a connection for as long as it lasts.
        connector = aiohttp.TCPConnector(limit=0, ssl=access.tls if access.tls is not None else False)
        self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)

    async def close(self) -> None:
        await self._session.close()

    async def get(self, path: str) -> Document:
        """Read one object. A refusal counts as a server that is away: it must not look like "none"."""
        try:
            return await self._call("GET", path)
        except CallRefused as error:
            raise away(f"GET {path}", str(error)) from error

    async def list(
        self, path: str, *, labels: str = "", fields: str = "", cached: bool = False
    ) -> list[Document]:
        """List objects. A refusal counts as a server that is away. ``cached``: may be behind by a moment."""
        version = "0" if cached else ""
        params = {"labelSelector": labels, "fieldSelector": fields, "resourceVersion": version}
        try:
            found = await self._call("GET", path, params={key: each for key, each in params.items() if each})
        except (CallRefused, NotFound) as error:
            raise away(f"list {path}", str(error)) from error
        return [*(found.get("items") or ())]

    async def create(self, path: str, body: Document, *, dry_run: bool = False) -> Document:
        return await self._call("POST", path, body=body, params={"dryRun": "All"} if dry_run else {})

    async def replace(self, path: str, body: Document) -> Document:
        """Replace an object; with the resource version in ``body`` only if it is unchanged."""
        return await self._call("PUT", path, body=body)

    async def patch(self, path: str, body: Document, *, strategic: bool = False) -> Document:
        """Merge ``body`` into an object; with uid and resource version in it only if it is unchanged.

        ``strategic``: lists are merged, by the names of their items, and not replaced.
        """
        kind = "strategic-merge-patch" if strategic else "merge-patch"
        return await self._call("PATCH", path, body=body, content_type=f"application/{kind}+json")

    async def delete(self, path: str, *, uid: str, version: str) -> None:
        """Delete the object that was read with this uid and resource version; else ``Conflict``.

        The grace period is the object's own. It is never shortened to nothing: that would remove the object
        from the API while its containers still run.
        """
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        await self._call("DELETE", path, body=body)

    async def newest_version(self, path: str) -> str:
        """The resource version to watch from."""
        found = await self._call("GET", path, params={"limit": "1"})
        return str(found["metadata"]["resourceVersion"])

    async def watch(
        self, path: str, *, version: str, seconds: float, **params: str
    ) -> AsyncGenerator[tuple[str, Document], None]:
        """Changes since ``version`` as (kind of event, object), for at most ``seconds``.

        Raises ``Expired`` if the server has forgotten that version: it says so with HTTP 200 and an event.
        """
        params |= {"watch": "1", "resourceVersion": version, "timeoutSeconds": str(max(1, int(seconds)))}
        timeout = aiohttp.ClientTimeout(total=seconds + _CONNECT_SECONDS, sock_connect=_CONNECT_SECONDS)
        async with (
            self._answering("watch"),
            self._open("GET", path, params=params, timeout=timeout) as response,
        ):
            async for line in _lines(response.content):
                event = json.loads(line)
                found = event.get("object") or {}
                if event.get("type") == "ERROR":
                    if found.get("code") == HTTPStatus.GONE:
                        raise Expired(str(found.get("message")))
                    raise away("watch", str(found.get("message")))
                yield str(event.get("type")), found

    async def output(
        self, path: str, *, follow: bool = False, silent_seconds: float | None = None, **params: str
    ) -> AsyncGenerator[bytes, None]:
        """Output of a pod's container. Ends with the container, or with the connection.

        Raises ``SilentStream`` after ``silent_seconds`` without any: a connection may die without a word.
        """
        params |= {"follow": "true"} if follow else {}
        total = None if follow else self._timeout.total
        timeout = aiohttp.ClientTimeout(total=total, sock_connect=_CONNECT_SECONDS, sock_read=silent_seconds)
        async with (
            self._answering("read output"),
            self._open("GET", path, params=params, timeout=timeout) as answer,
        ):
            pieces = aiter(answer.content.iter_any())
            while True:
                try:
                    piece = await anext(pieces)
                except StopAsyncIteration:
                    return
                except aiohttp.SocketTimeoutError as error:
                    raise SilentStream(path) from error
                yield piece

    async def connect(
        self, path: str, params: Sequence[tuple[str, str]], *, protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket that speaks one of ``protocols``."""
        async with self._answering(f"connect {path}"):
            for last in (False, True):
                try:
                    return await self._connect(path, params, protocols)
                except aiohttp.WSServerHandshakeError as error:
                    if error.status != HTTPStatus.UNAUTHORIZED or last:
                        raise _sorted(f"connect {path}", error.status, b"") from error
                    self.access.credentials.forget()
        raise AssertionError("unreachable")

    async def _connect(
        self, path: str, params: Sequence[tuple[str, str]], protocols: Sequence[str]
    ) -> aiohttp.ClientWebSocketResponse:
        token = await self.access.credentials.token()
        async with asyncio.timeout(self._timeout.total):
            return await self._session.ws_connect(
                self.access.server + path,
                params=params,
                protocols=protocols,
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=aiohttp.ClientWSTimeout(ws_close=_CLOSE_SECONDS),
                max_msg_size=0,
                server_hostname=self.access.server_name,
            )

    async def _call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Document | None = None,
        content_type: str = "application/json",
    ) -> Document:
        async with self._answering(f"{method} {path}"):
            data = None if body is None else json.dumps(body).encode()
            headers = {} if data is None else {"Content-Type": content_type}
            async with self._open(method, path, params=params or {}, data=data, headers=headers) as response:
                found: Document = json.loads(await response.read())
                return found

    @asynccontextmanager
    async def _open(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str],
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request; yields a good answer, raises a bad one.

        Sent again only if the server has certainly not acted on it: it was told to come later (429), or did not
        know us (401), which a new token may change.
        """
        for last in (*([False] * (_PATIENCE - 1)), True):
            sent = await self._send(
                method, path, params=params, data=data, headers=headers or {}, timeout=timeout
            )
            async with sent as response:
                if response.status < HTTPStatus.BAD_REQUEST:
                    yield response
                    return
                failure = _sorted(f"{method} {path}", response.status, await response.read())
                if last or response.status not in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.UNAUTHORIZED):
                    raise failure
                pause = _pause(response.headers.get("Retry-After"))
            if response.status == HTTPStatus.UNAUTHORIZED:
                self.access.credentials.forget()
            else:
                await asyncio.sleep(pause)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str],
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout | None,
    ) -> aiohttp.ClientResponse:
        token = await self.access.credentials.token()
        identity = {"Authorization": f"Bearer {token}"} if token else {}
        return await self._session.request(
            method,
            self.access.server + path,
            params=params,
            data=data,
            headers={**_HEADERS, **headers, **identity},
            timeout=timeout or self._timeout,
            server_hostname=self.access.server_name,
        )

    @asynccontextmanager
    async def _answering(self, what: str) -> AsyncIterator[None]:
        try:
            yield
        except (aiohttp.ClientError, AccessError, OSError, TimeoutError, ValueError) as error:
            raise away(what, str(error) or type(error).__name__) from error


def _sorted(what: str, status: int, body: bytes) -> Exception:
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        message = body.decode(errors="replace").strip()[:500] or f"status {status}"
    match status:
        case HTTPStatus.NOT_FOUND:
            return NotFound(message)
        case HTTPStatus.CONFLICT:
            return Conflict(message)
        case HTTPStatus.GONE:
            return Expired(message)
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.TOO_MANY_REQUESTS:
            return away(what, message)
        case HTTPStatus.FORBIDDEN if _NOT_ALLOWED.search(message):
            return away(what, message)
        case _ if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return CallRefused(message, status=status)
        case _:
            return away(what, message)


def _pause(retry_after: str | None) -> float:
    asked = float(retry_after) if retry_after is not None and retry_after.isdigit() else 1.0
    return min(asked, _LONGEST_PAUSE_SECONDS)


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Whole lines, however long: an object may be larger than the reader's buffer."""
    rest = b""
    async for piece in content.iter_any():
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield line


def away(what: str, why: str) -> EffectError:
    """An API server that did not answer."""
    return EffectError(
        FailureCode.K8S_API_ERROR,
        f"The Kubernetes API server did not answer ({what}): {why}",
        endpoint="kubernetes",
        call=what,
    )


def namespaced(namespace: str, kind: str, name: str = "", *rest: str) -> str:
    """Path of a collection or an object of the core API."""
    parts = [each for each in (name, *rest) if each]
    return "/".join([f"/api/v1/namespaces/{namespace}/{kind}", *parts])
