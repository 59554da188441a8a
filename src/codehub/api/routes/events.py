"""Stream live events: ``/events`` and ``/workspaces/{id}/events``."""

from typing import Annotated
from uuid import UUID

from fastapi import Query, Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.live.sse import EventStream, Write
from codehub.api.live.streams import ChosenWorkspaces, OneWorkspace, Topic, WorkspaceList, WorkspaceStream
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import OwnerFilter, find_visible, resolve_owner
from codehub.api.state import State
from codehub.services.identity import Principal
from codehub.signals.live import LiveSubscription

router = api_router("", "events")

MAX_CHOSEN = 200

Chosen = Annotated[list[UUID] | None, Query(alias="id", max_length=MAX_CHOSEN)]

_STREAM = {
    "description": "Events: snapshot, state_changed, progress, activity, error, deleted, resync, heartbeat",
    "content": {"text/event-stream": {"schema": {"type": "string"}}},
}


@router.get(
    "/workspaces/{workspace_id}/events",
    summary="Live changes of one workspace",
    response_model=None,
    response_class=Response,
    responses={200: _STREAM, **problems.documented("unauthorized", "not_found", "validation_failed")},
)
async def workspace_events(workspace_id: UUID, caller: Caller, state: State) -> Response:
    await find_visible(workspace_id, caller, state)

    async def source(write: Write) -> None:
        with state.deps.live.subscribe_workspace(workspace_id) as subscription:
            await _stream(state, caller, OneWorkspace(workspace_id, state.frames), subscription, write)

    return EventStream(source)


@router.get(
    "/events",
    summary="Live changes of my workspaces",
    response_model=None,
    response_class=Response,
    responses={200: _STREAM, **problems.documented("unauthorized", "forbidden", "validation_failed")},
)
async def events(
    caller: Caller,
    state: State,
    owner: OwnerFilter = None,
    chosen: Chosen = None,
) -> Response:
    """With `id`, repeated: only these workspaces, as far as the caller may see them."""
    owner_id = resolve_owner(owner, caller)
    live = state.deps.live

    async def source(write: Write) -> None:
        topic: Topic
        if chosen:
            topic = ChosenWorkspaces(chosen, owner_id, state.frames, records=state.workspaces)
        else:
            topic = WorkspaceList(owner_id, state.frames, reading=state.reading, slots=state.snapshot_slots)
        with live.subscribe_all() if owner_id is None else live.subscribe_user(owner_id) as subscription:
            await _stream(state, caller, topic, subscription, write)

    return EventStream(source)


async def _stream(
    state: State, caller: Principal, topic: Topic, subscription: LiveSubscription, write: Write
) -> None:
    stream = WorkspaceStream(
        topic,
        subscription,
        frames=state.frames,
        write=write,
        heartbeat_seconds=state.settings.heartbeat_seconds,
    )
    with state.revoker.watching(caller, subscription.close):
        await stream.run()
