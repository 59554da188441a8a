"""WebSocket by which the proxy reaches a port of a container's own loopback: ``/workspaces/{id}/ports/{port}/tunnel``.

Only proxies use it: they sign what they ask for, and have decided who may (``proxy/access/policy``). Proxies in pods of
their own have no right to run anything in workspaces, hence this way. Each tunnel is one ``inside connect`` in the
workspace; it is no activity by itself, as the proxy counts its requests.
"""

import asyncio
import contextlib
from collections import Counter
from uuid import UUID

import structlog
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect

from codehub.api import problems
from codehub.api.problems import Refused
from codehub.api.routes.router import PREFIX
from codehub.api.routes.ssh import refuse
from codehub.api.state import AppState
from codehub.domain.errors import CodeHubError, EffectError
from codehub.domain.waking import Phase, phase_of
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.exec_stream import ExecStream, Stream
from codehub.store.errors import DATABASE_FAILED

log = structlog.get_logger(__name__)

HEADER = "x-codehub-tunnel"
END = "end"
"""A text message of the proxy: it sends no more. WebSockets cannot half-close by themselves."""

CONNECTED = b"+"
CONNECT_SECONDS = 10.0
MAX_OF_WORKSPACE = 32
MAX_IN_ALL = 512

sockets = APIRouter(prefix=PREFIX + "/workspaces")
_open: Counter[UUID] = Counter()


@sockets.websocket("/{workspace_id}/ports/{port}/tunnel")
async def tunnel(socket: WebSocket, workspace_id: UUID, port: int) -> None:
    """Join the proxy with a port: binary messages are its bytes. Refusals are HTTP answers."""
    state: AppState = socket.app.state.codehub
    verify = state.deps.verify_tunnel
    if verify is None or not verify(socket.headers.get(HEADER, ""), workspace_id, port):
        await refuse(socket, problems.of_error(Refused("not_found")))
        return
    if _open[workspace_id] >= MAX_OF_WORKSPACE or _open.total() >= MAX_IN_ALL:
        await refuse(socket, problems.of_error(Refused("busy", "Too many connections to loopback ports.")))
        return
    _open[workspace_id] += 1
    try:
        await _join(socket, state, workspace_id, port)
    finally:
        _open[workspace_id] -= 1
        if not _open[workspace_id]:
            del _open[workspace_id]


async def _join(socket: WebSocket, state: AppState, workspace_id: UUID, port: int) -> None:
    try:
        stream = await _start(state, workspace_id, port)
    except CodeHubError as error:
        await refuse(socket, problems.of_error(error))
        return
    except DATABASE_FAILED as error:
        await refuse(socket, problems.of_database_error(error))
        return
    async with stream:  # closing it leaves no process, whoever ended first
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                first = await stream.read()
        except (TimeoutError, EffectError):
            first = None
        if first is None or first.stream is not Stream.STDOUT or not first.data.startswith(CONNECTED):
            await refuse(socket, problems.of_error(Refused("not_found", f"Nothing listens on port {port}.")))
            return
        await socket.accept()
        await _carry(socket, stream, first.data[len(CONNECTED) :])


async def _start(state: AppState, workspace_id: UUID, port: int) -> ExecStream:
    record = await state.workspaces.get(workspace_id)
    access = state.deps.inside
    if record is None or access is None or access.shares_network:
        raise Refused("not_found")
    if record.view.deleted_at is not None or phase_of(record.view) is not Phase.RUNNING:
        raise Refused("not_running")
    return await access.connect(workspace_id, port)


async def _carry(socket: WebSocket, stream: ExecStream, begun: bytes) -> None:
    """Carry bytes both ways until the port's side has ended, or the proxy is gone."""
    receiving = asyncio.create_task(_receive(socket, stream))
    sending = asyncio.create_task(_send(socket, stream, begun))
    try:
        # The end of what the proxy sends is passed on as such; the answer may still come.
        await asyncio.wait((receiving, sending), return_when=asyncio.FIRST_COMPLETED)
        if (
            receiving.done()
            and not receiving.cancelled()
            and receiving.exception() is None
            and receiving.result()
        ):
            await asyncio.wait((sending,))
    finally:
        await cancel_and_wait([receiving, sending])
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.close()


async def _receive(socket: WebSocket, stream: ExecStream) -> bool:
    """Pass on what the proxy sends. True: it has sent all of it; False: it is gone."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return False
        if message.get("text") == END:
            await stream.close_stdin()
            return True
        await stream.write(message.get("bytes") or b"")


async def _send(socket: WebSocket, stream: ExecStream, begun: bytes) -> None:
    if begun:
        await socket.send_bytes(begun)
    while (piece := await stream.read()) is not None:
        if piece.stream is Stream.STDOUT:
            await socket.send_bytes(piece.data)
