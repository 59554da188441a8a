"""Routes that run a command in a workspace: ``/workspaces/{id}/exec``, as an event stream and as a WebSocket."""

import asyncio
import contextlib
from contextlib import AsyncExitStack
from uuid import UUID

from fastapi import APIRouter, Response, WebSocket
from pydantic import ValidationError
from starlette.websockets import WebSocketDisconnect

from codehub.api import problems
from codehub.api.auth import Caller, caller_of_socket
from codehub.api.dependencies import InsideAccess
from codehub.api.inside.admission import admitted
from codehub.api.inside.command import command
from codehub.api.inside.command_events import EXAMPLE, CommandEvents
from codehub.api.inside.command_session import CommandSession
from codehub.api.inside.endings import ENDING, NO_TUNNEL, REVOKED, SessionEnd
from codehub.api.inside.held import Held
from codehub.api.inside.query import Wake
from codehub.api.live.sse import EventStream
from codehub.api.routes.router import PREFIX, api_router
from codehub.api.routes.ssh import refuse
from codehub.api.schemas.commands import Command, InteractiveCommand
from codehub.api.state import AppState, State
from codehub.domain.errors import CodeHubError
from codehub.services import inside as service
from codehub.services.identity import Principal
from codehub.store.errors import DATABASE_FAILED

router = api_router("/workspaces/{workspace_id}", "inside")
sockets = APIRouter(prefix=PREFIX + "/workspaces")

FIRST_MESSAGE_SECONDS = 20.0
MAX_FIRST_MESSAGE = 2 * 1024 * 1024

_STREAM = {
    "description": "An event stream: `stdout` and `stderr` with `data` in base64, then one `exit` with `code`, "
    "`timed_out` and `message`. A stream without `exit` was cut. Leaving it ends the command.",
    "content": {"text/event-stream": {"schema": {"type": "string"}, "example": EXAMPLE}},
}


@router.post(
    "/exec",
    summary="Run a command in it",
    response_model=None,
    response_class=Response,
    responses={
        200: _STREAM,
        **problems.documented(
            "bad_request", "unauthorized", "csrf", "not_found", "deleted", "not_running", "waking", "too_large",
            "unsupported_media_type", "validation_failed", "busy", "limit_user", "limit_global", "unavailable",
        ),
    },
)  # fmt: skip
async def exec_command(
    workspace_id: UUID, body: Command, caller: Caller, state: State, wake: Wake = False
) -> Response:
    """It has the rights of the workspace's own user, and ends with this connection, like all it starts.

    As a WebSocket at the same address it takes input as it comes, signals, and a terminal.
    """
    async with AsyncExitStack() as resources:
        access = await resources.enter_async_context(admitted(workspace_id, caller, state, wake=wake))
        await _record(workspace_id, body, caller, state)
        running = await resources.enter_async_context(command(access, workspace_id, _request(body)))
        await running.end_input()
        events = CommandEvents(
            running, timeout_seconds=body.timeout_seconds, every=state.settings.heartbeat_seconds
        )
        return Held(EventStream(events.run), resources.pop_all())


@sockets.websocket("/{workspace_id}/exec")
async def connect(socket: WebSocket, workspace_id: UUID, wake: bool = False) -> None:
    """Run the command of the first message (``api/inside/command_session``). Refusals before it are HTTP answers."""
    state: AppState = socket.app.state.codehub
    accepted = False
    try:
        caller = await caller_of_socket(socket, state)
        async with admitted(workspace_id, caller, state, wake=wake) as access:
            await socket.accept()
            accepted = True
            end = await _run(socket, workspace_id, caller, state, access)
    except CodeHubError as error:
        if not accepted:
            await refuse(socket, problems.of_error(error))
            return
        end = _end_of(error, state)
    except DATABASE_FAILED as error:
        if not accepted:
            await refuse(socket, problems.of_database_error(error))
            return
        end = NO_TUNNEL
    except WebSocketDisconnect:
        return
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):  # the client left in the middle of a message
        await socket.close(end.code, end.reason)


async def _run(
    socket: WebSocket, workspace_id: UUID, caller: Principal, state: AppState, access: InsideAccess
) -> SessionEnd:
    try:
        async with asyncio.timeout(FIRST_MESSAGE_SECONDS):
            message = await socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect
        text = message.get("text") or ""
        if len(text) > MAX_FIRST_MESSAGE:
            return _misfit("it is too long")
        body = InteractiveCommand.model_validate_json(text)
    except TimeoutError:
        return _misfit("it did not come")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return _misfit(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
    await _record(workspace_id, body, caller, state)
    async with command(access, workspace_id, _request(body)) as running:
        return await CommandSession(socket, running, timeout_seconds=body.timeout_seconds).run()


def _misfit(why: str) -> SessionEnd:
    # A closing reason has 123 bytes.
    return SessionEnd(1008, f"The first message is no command: {why}".encode()[:120].decode(errors="ignore"))


def _end_of(error: CodeHubError, state: AppState) -> SessionEnd:
    if state.revoker.is_ending:
        return ENDING
    if error.code == "unauthorized":
        return REVOKED
    return SessionEnd(NO_TUNNEL.code, str(error).encode()[:120].decode(errors="ignore"))


def _request(body: Command) -> dict[str, object]:
    return {"do": "exec", **body.request()}


async def _record(workspace_id: UUID, body: Command, caller: Principal, state: AppState) -> None:
    async with state.sessions.begin() as session:
        await service.record_use(
            session, "exec", workspace_id, actor=caller.actor, program=body.argv[0][:200]
        )
