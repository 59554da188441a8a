"""Routes for workspaces: ``/workspaces``.

Authorization and the meaning of each call are in ``services/workspaces``, not here.
"""

from datetime import timedelta
from functools import partial
from typing import Annotated, Any
from uuid import UUID

from fastapi import Query, Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.routes.paging import IdCursor, Limit
from codehub.api.routes.router import api_router
from codehub.api.schemas.base import Page
from codehub.api.schemas.fields import Fragment, Tag
from codehub.api.schemas.workspaces import (
    KeepAwake,
    NewWorkspace,
    ReturnToArchive,
    StartWorkspace,
    Workspace,
    WorkspaceChange,
)
from codehub.api.state import JSON, State
from codehub.domain.status import Status
from codehub.services import workspaces as service
from codehub.services.errors import UnknownImage
from codehub.services.identity import Principal
from codehub.services.workspaces import WorkspaceValues
from codehub.store.workspaces.records import WorkspaceRecord

router = api_router("/workspaces", "workspaces")

OwnerFilter = Annotated[
    str | None,
    Query(
        pattern="^(all|[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12})$",
        description="Administrators: an owner's id, or `all`",
    ),
]

_VISIBLE = ("unauthorized", "not_found", "validation_failed")
_CHANGED = (*_VISIBLE, "csrf", "deleted")


def answers(status: int, *codes: str) -> dict[str, Any]:
    """Arguments of a route that renders a workspace itself, without a response model."""
    described = {status: {"model": Workspace, "description": "The workspace"}}
    return {
        "status_code": status,
        "response_model": None,
        "responses": {**described, **problems.documented(*codes)},
    }


@router.get(
    "",
    summary="My workspaces",
    response_model=None,
    responses={
        200: {"model": Page[Workspace]},
        **problems.documented("unauthorized", "forbidden", "validation_failed"),
    },
)
async def list_workspaces(
    caller: Caller,
    state: State,
    owner: OwnerFilter = None,
    status: Status | None = None,
    q: Annotated[Fragment | None, Query(description="Part of the name or description")] = None,
    tag: Annotated[Tag | None, Query(description="One of its tags")] = None,
    cursor: IdCursor = None,
    limit: Limit = 50,
) -> Response:
    """Newest first. Deleted workspaces only with `status=deleted`, for administrators."""
    owner_id = resolve_owner(owner, caller)
    if status is Status.DELETED and not caller.user.is_admin:
        raise problems.Refused("forbidden")
    if status is None and q is None and tag is None and cursor is None:
        body = await state.pages.first(owner_id, limit)
    else:
        wanted = status.value if status else None
        body = await state.pages.read(owner_id, limit=limit, status=wanted, q=q, tag=tag, cursor=cursor)
    return Response(body, media_type=JSON)


@router.post(
    "",
    summary="Create a workspace",
    **answers(
        201,
        "unauthorized",
        "csrf",
        "name_taken",
        "validation_failed",
        "unknown_image",
        "limit_user",
        "limit_global",
    ),
)
async def create_workspace(body: NewWorkspace, caller: Caller, state: State) -> Response:
    """With `start`, if a limit is reached, nothing is created, unless `queue` asks to wait for a place."""
    settings = state.settings
    image_ref = await default_image(state, body.image_ref)
    new = WorkspaceValues(
        name=body.name,
        image_ref=image_ref,
        description=body.description,
        memo=body.memo,
        tags=tuple(body.tags),
        standby_ttl_seconds=_or(body.standby_ttl_seconds, settings.standby_ttl_seconds),
        archive_ttl_seconds=_or(body.archive_ttl_seconds, settings.archive_ttl_seconds),
        start=body.start,
        queue=body.queue,
    )
    record = await state.intent_batcher.submit(
        partial(service.create, new=new, owner_id=caller.user.id, actor=caller.actor, limits=settings.limits)
    )
    return await state.answer(record, status=201)


@router.get("/{workspace_id}", summary="One workspace", **answers(200, *_VISIBLE))
async def get_workspace(workspace_id: UUID, caller: Caller, state: State) -> Response:
    return await state.answer(await find_visible(workspace_id, caller, state))


@router.patch("/{workspace_id}", summary="Change its details", **answers(200, *_CHANGED, "name_taken"))
async def edit_workspace(workspace_id: UUID, body: WorkspaceChange, caller: Caller, state: State) -> Response:
    changes = body.model_dump(exclude_unset=True)
    async with state.sessions.begin() as session:
        record = await service.edit(session, workspace_id, changes, actor=caller.actor)
    if "standby_ttl_seconds" in changes:
        await state.retime(record.view)
    return await state.answer(record)


@router.delete("/{workspace_id}", summary="Delete it", **answers(202, *_VISIBLE, "csrf"))
async def delete_workspace(workspace_id: UUID, caller: Caller, state: State) -> Response:
    """Container and volume are deleted at once, archives later, by the archive GC."""
    async with state.sessions.begin() as session:
        record = await service.delete(session, workspace_id, actor=caller.actor)
    return await state.answer(record, status=202)


@router.post(
    "/{workspace_id}/start",
    summary="Start it: desired state RUNNING",
    **answers(202, *_CHANGED, "limit_user", "limit_global"),
)
async def start_workspace(
    workspace_id: UUID, caller: Caller, state: State, body: StartWorkspace | None = None
) -> Response:
    """At a limit it is refused, unless the body asks for something else.

    With `queue` it waits for a place: `queued_at` is set and the desired state stays; stopping it ends the wait. With
    `instead_of` another workspace gives its place to this one, or nothing changes.
    """
    asked = body or StartWorkspace(queue=False, instead_of=None)
    start = partial(
        service.start,
        workspace_id=workspace_id,
        actor=caller.actor,
        limits=state.settings.limits,
        queue=asked.queue,
        instead_of=asked.instead_of,
    )
    if asked.instead_of is None:
        record = await state.intent_batcher.submit(start, row=workspace_id)
    else:  # a transaction of its own: a refusal must undo the stop
        async with state.sessions.begin() as session:
            record = await start(session)
    return await state.answer(record, status=202)


@router.post(
    "/{workspace_id}/stop", summary="Stop it: desired state STANDBY", **answers(202, *_CHANGED, "archived")
)
async def stop_workspace(workspace_id: UUID, caller: Caller, state: State) -> Response:
    async with state.sessions.begin() as session:
        record = await service.stop(session, workspace_id, actor=caller.actor)
    return await state.answer(record, status=202)


@router.post(
    "/{workspace_id}/archive", summary="Archive it: desired state PENDING", **answers(202, *_CHANGED)
)
async def archive_workspace(workspace_id: UUID, caller: Caller, state: State) -> Response:
    async with state.sessions.begin() as session:
        record = await service.archive(session, workspace_id, actor=caller.actor)
    return await state.answer(record, status=202)


@router.post(
    "/{workspace_id}/keep-awake",
    summary="Keep it awake for some hours",
    **answers(202, *_CHANGED),
)
async def keep_awake(
    workspace_id: UUID, caller: Caller, state: State, body: KeepAwake | None = None
) -> Response:
    """Without a body: one hour."""
    duration = timedelta(hours=body.hours if body is not None else 1)
    async with state.sessions.begin() as session:
        record = await service.keep_awake(session, workspace_id, for_=duration, actor=caller.actor)
    return await state.answer(record, status=202)


@router.post(
    "/{workspace_id}/recover",
    summary="Lift an error",
    **answers(202, *_CHANGED, "forbidden", "limit_user", "limit_global"),
)
async def recover_workspace(workspace_id: UUID, caller: Caller, state: State) -> Response:
    """Owners may lift errors that stopped an archiving, administrators all errors.

    Idempotent: without an error nothing changes.
    """
    async with state.sessions.begin() as session:
        record = await service.recover(
            session, workspace_id, actor=caller.actor, limits=state.settings.limits
        )
    return await state.answer(record, status=202)


@router.post(
    "/{workspace_id}/return-to-archive",
    summary="Give its home on a lost node up",
    **answers(202, *_CHANGED, "home_not_given_up", "limit_user", "limit_global"),
)
async def return_to_archive(
    workspace_id: UUID, body: ReturnToArchive, caller: Caller, state: State
) -> Response:
    """**What was written since that archive is lost.** Only with an error `HOME_NODE_UNAVAILABLE`.

    Wait instead if the node will come back: its home is whole.
    """
    async with state.sessions.begin() as session:
        record = await service.return_to_archive(
            session,
            workspace_id,
            archive_key=body.archive_key,
            actor=caller.actor,
            limits=state.settings.limits,
        )
    return await state.answer(record, status=202)


async def find_visible(workspace_id: UUID, caller: Principal, state: State) -> WorkspaceRecord:
    """Return the workspace, or raise 404, also if the caller may not see it."""
    return service.visible(await state.workspaces.get(workspace_id), caller.actor)


def resolve_owner(owner: str | None, caller: Principal) -> UUID | None:
    """Resolve the ``owner`` parameter to an id; None: all.

    Raises 403 for other people's workspaces, unless admin.
    """
    if owner is None:
        return caller.user.id
    if owner != "all" and UUID(owner) == caller.user.id:
        return caller.user.id
    if not caller.user.is_admin:
        raise problems.Refused("forbidden")
    return None if owner == "all" else UUID(owner)


async def default_image(state: State, wanted: str | None) -> str:
    """The image that was asked for, or the default. Raises ``UnknownImage``."""
    known = await state.deps.runtime.images()
    chosen = wanted or state.settings.default_image or (known[0] if known else None)
    if chosen is None:
        raise problems.Invalid("image_ref", "there is no default image: name one")
    if known and chosen not in known:
        raise UnknownImage(chosen, known)
    return chosen


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
