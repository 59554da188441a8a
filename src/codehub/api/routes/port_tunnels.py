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
from codehub.api.dependencies import InsideAccess
from codehub.api.inside.command import RunningCommand, port_connection
from codehub.api.inside.frames import Told
from codehub.api.problems import Refused
from codehub.api.routes.router import PREFIX
from codehub.api.routes.ssh import refuse
from codehub.api.state import AppState
from codehub.domain.errors import CodeHubError
from codehub.domain.waking import Phase, phase_of
from codehub.kit.tasks import cancel_and_wait
from codehub.store.errors import DATABASE_FAILED

log = structlog.get_logger(__name__)

HEADER = "x-codehub-tunnel"
END = "end"
"""A text message of the proxy: it sends no more. WebSockets cannot half-close by themselves."""

ENDED, CUT = 1000, 1011
"""How the WebSocket is closed: the port has said all, or not."""

WINDOW_BYTES = 256 * 1024
LOOK_SECONDS = 15.0
"""Between looks at a proxy that waits for a port which does not read."""
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
        access = await _admitted(state, workspace_id)
        async with port_connection(access, workspace_id, port) as connection:
            await socket.accept()
            await _carry(socket, connection)
    except CodeHubError as error:
        await refuse(socket, problems.of_error(error))  # nothing, if it was accepted
    except DATABASE_FAILED as error:
        await refuse(socket, problems.of_database_error(error))


async def _admitted(state: AppState, workspace_id: UUID) -> InsideAccess:
    record = await state.workspaces.get(workspace_id)
    access = state.deps.inside
    if record is None or access is None or access.shares_network:
        raise Refused("not_found")
    if record.view.deleted_at is not None or phase_of(record.view) is not Phase.RUNNING:
        raise Refused("not_running")
    return access


async def _carry(socket: WebSocket, connection: RunningCommand) -> None:
    """Carry bytes both ways until the port's side has ended, or the proxy is gone."""
    window = _Window()
    receiving = asyncio.create_task(_receive(socket, connection, window))
    sending = asyncio.create_task(_send(socket, connection, window))
    code = CUT
    try:
        # The end of what the proxy sends is passed on as such; the answer may still come.
        await asyncio.wait((receiving, sending), return_when=asyncio.FIRST_COMPLETED)
        if _succeeded(receiving):
            await asyncio.wait((sending,))
        if _succeeded(sending):
            code = ENDED
    finally:
        await cancel_and_wait([receiving, sending])
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await socket.close(code)


def _succeeded(task: "asyncio.Task[bool]") -> bool:
    return task.done() and not task.cancelled() and task.exception() is None and task.result()


async def _receive(socket: WebSocket, connection: RunningCommand, window: "_Window") -> bool:
    """Pass on what the proxy sends. True: it has sent all of it; False: it is gone."""
    while True:
        message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            return False
        if message.get("text") == END:
            await connection.end_input()
            return True
        data = message.get("bytes") or b""
        while not await window.has_room(LOOK_SECONDS):
            await socket.send_bytes(
                b""
            )  # raises once the proxy is gone, which waits behind what was not received
        window.take(len(data))
        await connection.send_input(data)


async def _send(socket: WebSocket, connection: RunningCommand, window: "_Window") -> bool:
    """Pass on what the port says. True: it has said all; False: it was cut."""
    async for kind, data in connection.told():
        match kind:
            case Told.OUTPUT:
                await socket.send_bytes(data)
            case Told.TOOK:
                window.give(int.from_bytes(data, "big"))
            case Told.EXIT:
                return data == b"\0"
            case _:
                return False
    return False


class _Window:
    """How much may be under way to a port that has not read it: ``inside`` keeps no more than 1 MiB."""

    def __init__(self) -> None:
        self._under_way = 0
        self._given = asyncio.Event()

    async def has_room(self, seconds: float) -> bool:
        """Wait for room, at most so long."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._under_way >= WINDOW_BYTES:
                    self._given.clear()
                    await self._given.wait()
        return self._under_way < WINDOW_BYTES

    def take(self, size: int) -> None:
        self._under_way += size

    def give(self, size: int) -> None:
        self._under_way -= size
        self._given.set()
