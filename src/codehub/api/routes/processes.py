"""Routes for detached processes: ``/workspaces/{id}/processes``.

They are held in the workspace, by ``inside hold``: they outlive connections and this process, and end with the
workspace. Looking at them wakes nothing and is no use of it; that one runs is work (ADR 0039).
"""

from contextlib import AsyncExitStack
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import Query, Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.inside.admission import admitted
from codehub.api.inside.command import command
from codehub.api.inside.command_events import EXAMPLE, CommandEvents
from codehub.api.inside.exchange import exchange
from codehub.api.inside.held import Held
from codehub.api.inside.query import Wake
from codehub.api.live.sse import EventStream
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.commands import DetachedCommand
from codehub.api.schemas.files import InsideAnswer
from codehub.api.schemas.processes import Kill, Process, Processes, ProcessId
from codehub.api.state import AppState, State
from codehub.services import inside as service
from codehub.services.identity import Principal

router = api_router("/workspaces/{workspace_id}/processes", "inside")

_LOOKS = (
    "unauthorized", "not_found", "deleted", "not_running", "waking", "validation_failed", "busy", "unavailable",
)  # fmt: skip
_LOOKING = problems.documented(*_LOOKS)
_CHANGES = (*_LOOKS, "bad_request", "csrf", "too_large", "unsupported_media_type")
_STARTING = problems.documented(*_CHANGES, "not_started", "limit_user", "limit_global")
_LOGS = {
    "description": "An event stream: `stdout` and `stderr` with `data` in base64, the latest 512 KiB that were kept; "
    "then one `exit` as of `exec`, or `running` if it goes on and was not followed.",
    "content": {"text/event-stream": {"schema": {"type": "string"}, "example": EXAMPLE}},
}


@router.post("", summary="Start a command that goes on by itself", responses=_STARTING, status_code=201)
async def start_process(
    workspace_id: UUID, body: DetachedCommand, caller: Caller, state: State, wake: Wake = False
) -> Process:
    """It outlives this connection and CodeHub's own restarts, and ends with the workspace. 16 run at a time."""
    async with admitted(workspace_id, caller, state, wake=wake) as access:
        process_id = uuid4().hex[:12]
        await _record(workspace_id, caller, state, "start", program=body.argv[0][:200], process=process_id)
        request = {"do": "process_start", "process": process_id, **body.request()}
        async with exchange(access, workspace_id, request) as opened:
            return _only(await opened.answer())


@router.get("", summary="Its detached processes", responses=_LOOKING)
async def list_processes(workspace_id: UUID, caller: Caller, state: State) -> Processes:
    """Those that run, and those that ended in the last day. Never wakes, and is no use of it."""
    async with admitted(workspace_id, caller, state, wake=False, is_use=False) as access:
        await _record_if_foreign(workspace_id, caller, state, "list")
        async with exchange(access, workspace_id, {"do": "process_list"}) as opened:
            return Processes(items=(await opened.answer()).processes)


@router.get(
    "/{process_id}/logs",
    summary="What a detached process has said",
    response_model=None,
    response_class=Response,
    responses={200: _LOGS, **_LOOKING},
)
async def read_process_logs(
    workspace_id: UUID,
    process_id: ProcessId,
    caller: Caller,
    state: State,
    follow: Annotated[bool, Query(description="Go on until it ends")] = False,
) -> Response:
    """A reader who is slower than the process misses a part of it: it waits for nobody."""
    async with AsyncExitStack() as resources:
        access = await resources.enter_async_context(
            admitted(workspace_id, caller, state, wake=False, is_use=False)
        )
        await _record_if_foreign(workspace_id, caller, state, "logs", process=process_id)
        request = {"do": "process_logs", "process": process_id, "follow": follow}
        running = await resources.enter_async_context(command(access, workspace_id, request))
        events = CommandEvents(running, timeout_seconds=None, every=state.settings.heartbeat_seconds)
        return Held(EventStream(events.run), resources.pop_all())


@router.post("/{process_id}/kill", summary="End a detached process", responses=problems.documented(*_CHANGES))
async def kill_process(
    workspace_id: UUID, process_id: ProcessId, body: Kill, caller: Caller, state: State
) -> Process:
    """The signal goes to it and its group; what asks to end is followed by KILL for all it started."""
    async with admitted(workspace_id, caller, state, wake=False) as access:
        await _record(workspace_id, caller, state, "kill", process=process_id, signal=body.signal)
        request = {"do": "process_kill", "process": process_id, "signal": body.signal}
        async with exchange(access, workspace_id, request) as opened:
            return _only(await opened.answer())


def _only(answer: InsideAnswer) -> Process:
    if len(answer.processes) != 1:
        raise problems.Refused("unavailable", "The workspace answered something else.")
    return answer.processes[0]


async def _record(
    workspace_id: UUID, caller: Principal, state: AppState, what: str, **detail: object
) -> None:
    async with state.sessions.begin() as session:
        await service.record_use(session, f"process.{what}", workspace_id, actor=caller.actor, **detail)


async def _record_if_foreign(
    workspace_id: UUID, caller: Principal, state: AppState, what: str, **detail: object
) -> None:
    """Only administrators see what is not theirs."""
    if not caller.user.is_admin:
        return
    found = await find_visible(workspace_id, caller, state)
    if found.view.owner_id != caller.user.id:
        await _record(workspace_id, caller, state, what, **detail)
