"""Routes for SSH: ``/workspaces/{id}/ssh``, over HTTP for the host key and as a WebSocket for the connection."""

import contextlib
from enum import StrEnum
from functools import partial
from typing import Annotated
from uuid import UUID

import structlog
from fastapi import APIRouter, Query, Response, WebSocket
from starlette.websockets import WebSocketDisconnect

from codehub.api import problems
from codehub.api.auth import Caller, caller_of_socket
from codehub.api.dependencies import SshAccess
from codehub.api.inside.endings import CLOSED, ENDING, LOST, STOPPED
from codehub.api.routes.router import PREFIX, api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.ssh import SshHost
from codehub.api.ssh.session import SshSession
from codehub.api.state import AppState, State
from codehub.domain.errors import CodeHubError
from codehub.domain.waking import Phase, error_note, phase_of
from codehub.services import workspaces as service
from codehub.services.errors import WorkspaceDeleted
from codehub.services.identity import Principal
from codehub.services.inside import record_use
from codehub.store.errors import DATABASE_FAILED
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

router = api_router("/workspaces", "ssh")
sockets = APIRouter(prefix=PREFIX + "/workspaces")

NO_SSH = "SSH is not available here. On the server, codehub doctor says why."


class Wake(StrEnum):
    """Whether a connection wakes a workspace that sleeps."""

    FALSE = "false"
    TRUE = "true"  # not if this client's last session ended with the workspace, within ten minutes
    ALWAYS = "always"  # a person asked for it


@router.get(
    "/{workspace_id}/ssh",
    summary="Its SSH host key",
    responses=problems.documented("unauthorized", "not_found", "validation_failed", "unavailable"),
)
async def ssh_host(workspace_id: UUID, caller: Caller, state: State) -> SshHost:
    """The same as long as the workspace exists. Connections are a WebSocket at the same address."""
    record = await find_visible(workspace_id, caller, state)
    return SshHost(host_key=await _access(state).host_key(record.view.id))


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
        access = _access(state)
        client = f"{caller.user.id} {client}"
        record = await _admit(record, caller, state, wake=wake, client=client)
        async with state.sessions.begin() as session:
            await record_use(session, "ssh", workspace_id, actor=caller.actor)
    except CodeHubError as error:
        await refuse(socket, problems.of_error(error))
        return
    except DATABASE_FAILED as error:
        await refuse(socket, problems.of_database_error(error))
        return
    await socket.accept()
    log.info("ssh opened", workspace_id=str(workspace_id), user_id=str(caller.user.id))
    end = CLOSED
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the client left in the middle of a message
        end = await SshSession(socket, record, caller, state=state, access=access, keep=keep).run()
        if end in (STOPPED, LOST, ENDING):
            await state.ended_clients.remember(workspace_id, client)
        await socket.close(end.code, end.reason)
    log.info("ssh ended", workspace_id=str(workspace_id), user_id=str(caller.user.id), reason=end.reason)


def _access(state: AppState) -> SshAccess:
    if state.deps.ssh is None:
        raise problems.Refused("unavailable", NO_SSH)
    return state.deps.ssh


async def _admit(
    record: WorkspaceRecord, caller: Principal, state: AppState, *, wake: Wake, client: str
) -> WorkspaceRecord:
    """Return the workspace, which runs or is going to, or raise why not."""
    view = record.view
    if view.deleted_at is not None:
        raise WorkspaceDeleted(view.id)
    match phase_of(view):
        case Phase.RUNNING | Phase.WAKING:
            return record
        case Phase.ERROR:
            raise problems.Refused("not_running", f"{record.name} is in error. {error_note(view).message}")
        case Phase.ASLEEP:
            pass
    ended = state.ended_clients
    if wake is Wake.FALSE:
        raise problems.Refused("not_running", f"{record.name} is asleep. {_how_to_wake(record)}")
    if wake is Wake.TRUE and await ended.comes_back(view.id, client):
        raise problems.Refused(
            "not_running",
            f"{record.name} was put to sleep with this client's session, and connecting again by itself does not "
            f"wake it. {_how_to_wake(record)}",
        )
    start = partial(service.start, workspace_id=view.id, actor=caller.actor, limits=state.settings.limits)
    started = await state.intent_batcher.submit(start, row=view.id)
    await ended.forget(view.id, client)
    return started


def _how_to_wake(record: WorkspaceRecord) -> str:
    return f"To wake it: codehub ssh --wake {record.name}"


async def refuse(socket: WebSocket, answer: Response) -> None:
    """Answer a WebSocket that is not accepted, over HTTP."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # it has left
        await socket.send_denial_response(answer)
