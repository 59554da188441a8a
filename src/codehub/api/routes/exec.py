"""Route that runs a command in a workspace: ``POST /workspaces/{id}/exec``."""

import asyncio
import base64
import json
from contextlib import AsyncExitStack
from uuid import UUID

from fastapi import Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.inside.admission import admitted
from codehub.api.inside.exchange import exchange
from codehub.api.inside.held import Held
from codehub.api.inside.query import Wake
from codehub.api.live.sse import EventStream, Write
from codehub.api.live.streams import heartbeat
from codehub.api.routes.router import api_router
from codehub.api.schemas.commands import Command
from codehub.api.state import State
from codehub.domain.errors import EffectError
from codehub.kit.tasks import cancel_and_wait
from codehub.runtimes.exec_stream import ExecStream
from codehub.services import inside as service

router = api_router("/workspaces/{workspace_id}", "inside")

TIMED_OUT = 124
"""The exit code of a command that took too long, as ``timeout`` has it."""

_EXAMPLE = (
    'event: stdout\ndata: {"data": "aGVsbG8K"}\n\n'
    'event: exit\ndata: {"code": 0, "timed_out": false, "message": ""}\n\n'
)
_STREAM = {
    "description": "An event stream: `stdout` and `stderr` with `data` in base64, then one `exit` with `code`, "
    "`timed_out` and `message`. A stream without `exit` was cut. Leaving it ends the command.",
    "content": {"text/event-stream": {"schema": {"type": "string"}, "example": _EXAMPLE}},
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
    """It has the rights of the workspace's own user, and ends with this connection, like all it starts."""
    async with AsyncExitStack() as resources:
        access = await resources.enter_async_context(admitted(workspace_id, caller, state, wake=wake))
        async with state.sessions.begin() as session:
            await service.record_use(
                session, "exec", workspace_id, actor=caller.actor, program=body.argv[0][:200]
            )
        request = {
            "do": "exec",
            "argv": body.argv,
            "env": [f"{name}={value}" for name, value in body.env.items()],
            "cwd": body.cwd or "",
            "stdin": base64.b64encode(body.stdin).decode(),
        }
        opened = await resources.enter_async_context(exchange(access, workspace_id, request))
        events = _Events(opened.stream, body.timeout_seconds, every=state.settings.heartbeat_seconds)
        return Held(EventStream(events.run), resources.pop_all())


class _Events:
    """A command's output and end, as events. Whoever does not read stops the command."""

    def __init__(self, stream: ExecStream, timeout_seconds: float, *, every: float) -> None:
        self._stream = stream
        self._timeout_seconds = timeout_seconds
        self._every = every

    async def run(self, write: Write) -> None:
        beating = asyncio.create_task(self._beat(write))
        try:
            async with asyncio.timeout(self._timeout_seconds):
                while (piece := await self._stream.read()) is not None:
                    await write(_event(piece.stream.value, {"data": base64.b64encode(piece.data).decode()}))
                ended = await self._stream.wait()
            end = {"code": ended.code, "timed_out": False, "message": ended.message[:500]}
        except TimeoutError:
            end = {
                "code": TIMED_OUT,
                "timed_out": True,
                "message": f"Ended after {self._timeout_seconds:g} s.",
            }
        except EffectError as error:
            raise problems.Refused("unavailable", error.message) from error
        finally:
            await cancel_and_wait([beating])
        await write(_event("exit", end))

    async def _beat(self, write: Write) -> None:
        while True:
            await asyncio.sleep(self._every)
            await write(heartbeat())


def _event(name: str, data: dict[str, object]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()
