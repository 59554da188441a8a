"""Carry an SSH connection between standard input and output and CodeHub's WebSocket.

What happens meanwhile goes to standard error: ssh shows it. Imports websockets, so commands import this when they run.
"""

import asyncio
import contextlib
import fcntl
import json
import signal
import sys
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from codehub import __version__
from codehub.cli.client import PREFIX
from codehub.cli.failures import CommandError, ExitCode, Unreachable
from codehub.cli.login_file import SavedLogin, get_login, is_loopback
from codehub.cli.refusals import refusal_of
from codehub.cli.ssh_files import client_id

CHUNK = 256 * 1024
PIPE_BYTES = 1024 * 1024
"""Of the pipes to ssh: fewer and larger messages take less of the processor."""
OPEN_SECONDS = 30.0
PING_SECONDS = 30.0


def carry(workspace_id: str, *, wake: bool, keep: bool) -> None:
    """Carry one connection to its end. Raises ``CommandError`` with what the server said."""
    query = {"wake": "always" if wake else "true", "keep": str(keep).lower(), "client": client_id()}
    asyncio.run(_carry(get_login(), f"{PREFIX}/workspaces/{workspace_id}/ssh?{urlencode(query)}"))


async def _carry(login: SavedLogin, path: str) -> None:
    try:
        socket = await connect(
            login.url.replace("http", "ws", 1) + path,
            additional_headers={"Authorization": f"Bearer {login.token}"},
            user_agent_header=f"codehub-cli/{__version__}",
            # HTTP_PROXY is not used for loopback: the proxy would connect to its own machine instead.
            proxy=None if is_loopback(urlsplit(login.url).hostname) else True,
            compression=None,
            max_size=None,
            open_timeout=OPEN_SECONDS,
            ping_interval=PING_SECONDS,
            ping_timeout=PING_SECONDS,
        )
    except InvalidStatus as error:
        answer = httpx.Response(error.response.status_code, content=bytes(error.response.body or b""))
        raise refusal_of(answer, login.url) from error
    except (OSError, InvalidHandshake, TimeoutError) as error:
        raise Unreachable(f"CodeHub at {login.url} cannot be reached ({error}).") from error
    async with socket:
        reader, writer = await _standard_streams()
        sending = asyncio.create_task(_send(reader, socket))
        receiving = asyncio.ensure_future(_receive(socket, writer))
        # How ssh ends its ProxyCommand. Without a closing handshake the server would take the connection for lost, and
        # this client for one that may come back by itself.
        for ending in (signal.SIGHUP, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(ending, receiving.cancel)
        try:
            await receiving
        except asyncio.CancelledError:
            return
        finally:
            sending.cancel()
    if socket.close_code != 1000:
        reason = socket.close_reason or f"The connection to {login.url} was lost."
        raise CommandError(reason, ExitCode.CONFLICT if (socket.close_code or 0) >= 4000 else ExitCode.FAILED)


async def _send(reader: asyncio.StreamReader, socket: ClientConnection) -> None:
    """Send what ssh writes; its end ends the connection."""
    try:
        while data := await reader.read(CHUNK):
            await socket.send(data)
        await socket.close()
    except ConnectionClosed:
        pass  # whoever receives tells why


async def _receive(socket: ClientConnection, writer: asyncio.StreamWriter) -> None:
    try:
        async for message in socket:
            if isinstance(message, str):
                _show(json.loads(message))
                continue
            writer.write(message)
            await writer.drain()
    except (ConnectionClosed, BrokenPipeError, ConnectionResetError):
        pass  # the connection's code says which


def _show(news: dict[str, Any]) -> None:
    sys.stderr.write(f"codehub: the workspace is {news.get('status', 'waking')} …\r\n")
    sys.stderr.flush()


async def _standard_streams() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Standard input and output without threads: a thread that waits for input would never end."""
    loop = asyncio.get_running_loop()
    for pipe in (sys.stdin, sys.stdout):
        with contextlib.suppress(OSError):  # a socket, or more than this person may have
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    reader = asyncio.StreamReader(limit=4 * CHUNK)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin.buffer)
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sys.stdout.buffer)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)
