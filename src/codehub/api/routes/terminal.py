"""A shell in a workspace, for the dashboard: the WebSocket ``/workspaces/{id}/terminal``.

Who may not is refused with an HTTP answer, before anything is accepted. A browser cannot read such an answer, so what
is about the workspace (it sleeps, it has too many) closes the connection with a code that says so. Nothing here wakes.
"""

import contextlib
from typing import Annotated
from uuid import UUID

import structlog
from fastapi import APIRouter, Query, WebSocket
from starlette.websockets import WebSocketDisconnect

from codehub.api import problems
from codehub.api.auth import caller_of_socket
from codehub.api.inside.admission import place_in
from codehub.api.inside.endings import (
    AWAY,
    BROKEN,
    BUSY,
    CLOSED,
    DELETED,
    NOT_AVAILABLE,
    STOPPED,
    SessionEnd,
)
from codehub.api.routes.router import PREFIX
from codehub.api.routes.ssh import refuse
from codehub.api.routes.workspaces import find_visible
from codehub.api.state import AppState
from codehub.api.terminal.session import MAX_SIZE, TerminalRequest, TerminalSession
from codehub.domain.errors import CodeHubError
from codehub.domain.waking import Phase, phase_of
from codehub.runtimes.exec_stream import TerminalSize
from codehub.services.identity import Principal
from codehub.services.inside import record_use
from codehub.store.errors import DATABASE_FAILED
from codehub.store.workspaces.records import WorkspaceRecord

log = structlog.get_logger(__name__)

sockets = APIRouter(prefix=PREFIX + "/workspaces")

Size = Annotated[int, Query(ge=1, le=MAX_SIZE)]
Name = Annotated[str, Query(pattern=r"^[A-Za-z0-9-]{1,64}$")]


@sockets.websocket("/{workspace_id}/terminal")
async def connect(
    socket: WebSocket,
    workspace_id: UUID,
    id: Name = "main",
    client: Name = "none",
    columns: Size = 80,
    rows: Size = 24,
    resume: bool = False,
) -> None:
    """Connect to a shell: binary messages are its bytes, text messages are JSON (``api/terminal/session.py``)."""
    state: AppState = socket.app.state.codehub
    try:
        caller = await caller_of_socket(socket, state)
        record = await find_visible(workspace_id, caller, state)
    except CodeHubError as error:
        await refuse(socket, problems.of_error(error))
        return
    except DATABASE_FAILED as error:
        await refuse(socket, problems.of_database_error(error))
        return
    await socket.accept()
    request = TerminalRequest(id, TerminalSize(columns, rows), client, resume)
    end = CLOSED
    with contextlib.suppress(
        WebSocketDisconnect, RuntimeError
    ):  # the browser left in the middle of a message
        end = await _run(socket, record, caller, state, request)
        await socket.close(end.code, end.reason)
    log.info("terminal ended", workspace_id=str(workspace_id), user_id=str(caller.user.id), reason=end.reason)


async def _run(
    socket: WebSocket, record: WorkspaceRecord, caller: Principal, state: AppState, request: TerminalRequest
) -> SessionEnd:
    access, view = state.deps.inside, record.view
    if access is None:
        return NOT_AVAILABLE
    if view.deleted_at is not None:
        return DELETED
    match phase_of(view):
        case Phase.ASLEEP:
            return STOPPED
        case Phase.ERROR:
            return BROKEN
        case Phase.RUNNING | Phase.WAKING:
            pass
    try:
        with place_in(record):
            async with state.sessions.begin() as session:
                await record_use(session, "terminal", view.id, actor=caller.actor)
            log.info("terminal opened", workspace_id=str(view.id), user_id=str(caller.user.id))
            return await TerminalSession(
                socket, record, caller, state=state, access=access, request=request
            ).run()
    except problems.Refused:
        return BUSY
    except DATABASE_FAILED:
        return AWAY
