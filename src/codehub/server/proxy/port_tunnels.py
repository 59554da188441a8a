"""Reach ports of containers' own loopback for the proxy, through the API (``api/routes/port_tunnels``).

The proxy connects to a container's address; what listens on the container's 127.0.0.1 refuses it. Then one WebSocket to
the API per connection carries its bytes to ``inside connect`` in the workspace. The proxy is given one end of a socket
pair, so that for everything above it is a connection like any other.

If this process dies, the API sees its WebSockets end and ends what runs in the workspaces.
"""

import asyncio
import hmac
import logging
import socket
import time
from collections.abc import Callable
from uuid import UUID

import structlog
from websockets.asyncio.client import ClientConnection, connect, unix_connect
from websockets.exceptions import WebSocketException

from codehub.kit.cache import TtlCache
from codehub.kit.tasks import cancel_and_wait
from codehub.proxy.settings import SocketAddress, UnixAddress

log = structlog.get_logger(__name__)
# The library's own would write signatures and bytes into a log of level DEBUG.
_quiet = logging.getLogger("codehub.port_tunnels")
_quiet.setLevel(logging.WARNING)

HEADER = "X-CodeHub-Tunnel"
LIFETIME_SECONDS = 30
OPEN_SECONDS = 15.0
CLOSED_SECONDS = 2.0
"""How long a port on which nothing listened is not tried again: each attempt is a process in the workspace."""
AT_ONCE = 64
"""Attempts under way in this process."""
PIECE_BYTES = 64 * 1024


def sign_tunnel(workspace_id: UUID, port: int, *, secret: bytes, now: float) -> str:
    """Write the value of ``X-CodeHub-Tunnel``: ``expiry signature``, for this port of this workspace alone."""
    expires_at = int(now + LIFETIME_SECONDS)
    return f"{expires_at} {_signature(workspace_id, port, expires_at, secret)}"


class TunnelVerifier:
    """Verifies values of ``X-CodeHub-Tunnel``, for the API."""

    def __init__(self, secret: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._secret = secret
        self._clock = clock

    def __call__(self, value: str, workspace_id: UUID, port: int) -> bool:
        written, _, signature = value.partition(" ")
        if not (written.isascii() and written.isdigit() and len(written) <= 12):
            return False
        expected = _signature(workspace_id, port, int(written), self._secret)
        signed = hmac.compare_digest(signature.encode("latin-1", "replace"), expected.encode())
        return signed and self._clock() <= int(written)


def _signature(workspace_id: UUID, port: int, expires_at: int, secret: bytes) -> str:
    return hmac.digest(secret, f"tunnel {workspace_id} {port} {expires_at}".encode(), "sha256").hex()


class PortTunnels:
    """Opens connections to loopback ports of containers."""

    def __init__(self, api: SocketAddress, secret: bytes) -> None:
        self._api = api
        self._secret = secret
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._closed: TtlCache[tuple[UUID, int], bool] = TtlCache(size=4096, ttl=CLOSED_SECONDS)
        self._carrying: set[asyncio.Task[None]] = set()

    async def open(self, workspace_id: UUID, port: int) -> socket.socket | None:
        """Connect to a port. None: nothing listens there, or there are too many connections."""
        if self._closed.get((workspace_id, port)):
            return None
        try:
            async with self._slots, asyncio.timeout(OPEN_SECONDS):
                upstream = await self._connect(workspace_id, port)
        except (OSError, WebSocketException) as error:  # TimeoutError is an OSError
            self._closed.put((workspace_id, port), True)
            log.debug("no tunnel to a port", workspace_id=str(workspace_id), port=port, error=repr(error))
            return None
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=ours)
        task = asyncio.create_task(_carry(reader, writer, upstream), name="port-tunnel")
        self._carrying.add(task)
        task.add_done_callback(self._carrying.discard)
        await asyncio.sleep(0)  # so that it has begun: one that is cancelled before that closes nothing
        return theirs

    async def close(self) -> None:
        """End all tunnels."""
        await cancel_and_wait(list(self._carrying))

    async def _connect(self, workspace_id: UUID, port: int) -> ClientConnection:
        path = f"/api/v1/workspaces/{workspace_id}/ports/{port}/tunnel"
        headers = {HEADER: sign_tunnel(workspace_id, port, secret=self._secret, now=time.time())}
        if isinstance(self._api, UnixAddress):
            return await unix_connect(
                self._api.path,
                f"ws://localhost{path}",
                additional_headers=headers,
                compression=None,
                max_size=None,
                ping_interval=None,
                logger=_quiet,
            )
        host = f"[{self._api.host}]" if ":" in self._api.host else self._api.host
        return await connect(
            f"ws://{host}:{self._api.port}{path}",
            additional_headers=headers,
            compression=None,
            max_size=None,
            proxy=None,
            logger=_quiet,
            ping_interval=60.0,  # another machine may vanish without a word
        )


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, upstream: ClientConnection
) -> None:
    """Carry bytes both ways until the workspace's side has ended, or the proxy has let go."""
    sending = asyncio.create_task(_send(reader, upstream))
    try:
        async for message in upstream:
            if isinstance(message, bytes):
                writer.write(message)
                await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
            await writer.drain()
    except (OSError, WebSocketException):
        pass  # either side is gone: both end
    finally:
        await cancel_and_wait([sending])
        writer.close()
        await upstream.close()


async def _send(reader: asyncio.StreamReader, upstream: ClientConnection) -> None:
    try:
        while data := await reader.read(PIECE_BYTES):
            await upstream.send(data)
        await upstream.send("end")
    except WebSocketException:
        return  # whoever receives sees it, too
    except OSError:  # the proxy aborted its end: nobody reads the answer
        await upstream.close()
