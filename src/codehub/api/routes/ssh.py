"""Routes for SSH: ``/workspaces/{id}/ssh``, over HTTP for the host key and as a WebSocket for the connection."""

import contextlib
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Response, WebSocket
from starlette.websockets import WebSocketDisconnect

from codehub.api import problems
from codehub.api.auth import Caller, caller_of_socket
from codehub.api.routes.router import PREFIX, api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.ssh import SshHost
from codehub.api.ssh.admission import Wake, admit, carry, ssh_access
from codehub.api.ssh.socket_client import SocketClient
from codehub.api.state import AppState, State
from codehub.domain.errors import CodeHubError
from codehub.store.errors import DATABASE_FAILED

router = api_router("/workspaces", "ssh")
sockets = APIRouter(prefix=PREFIX + "/workspaces")


@router.get(
    "/{workspace_id}/ssh",
    summary="Its SSH host key",
    responses=problems.documented("unauthorized", "not_found", "validation_failed", "unavailable"),
)
async def ssh_host(workspace_id: UUID, caller: Caller, state: State) -> SshHost:
    """The same as long as the workspace exists. Connections are a WebSocket at the same address."""
    record = await find_visible(workspace_id, caller, state)
    return SshHost(host_key=await ssh_access(state).host_key(record.view.id))


@sockets.websocket("/{workspace_id}/ssh")
async def connect(
    socket: WebSocket,
    workspace_id: UUID,
    wake: Wake = Wake.FALSE,
    keep: bool = False,
    client: Annotated[str, Query(max_length=64)] = "",
) -> None:
    """Connect to ``inside ssh``: binary messages are SSH's bytes. Refusals are HTTP answers."""
    state: AppState = socket.app.state.codehub
    try:
        caller = await caller_of_socket(socket, state)
        record = await find_visible(workspace_id, caller, state)
        client = f"{caller.user.id} {client}"
        to_wake = f"codehub ssh --wake {record.name}"
        admitted = await admit(record, caller, state, wake=wake, client=client, to_wake=to_wake)
    except CodeHubError as error:
        await refuse(socket, problems.of_error(error))
        return
    except DATABASE_FAILED as error:
        await refuse(socket, problems.of_database_error(error))
        return
    await socket.accept()
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the client left in the middle of a message
        end = await carry(SocketClient(socket), admitted, keep=keep)
        await socket.close(end.code, end.reason)


async def refuse(socket: WebSocket, answer: Response) -> None:
    """Answer a WebSocket that is not accepted, over HTTP."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it has left
        await socket.send_denial_response(answer)
