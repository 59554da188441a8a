"""Routes for the files of a workspace that runs: ``/workspaces/{id}/files``.

Everything is done by ``inside`` in the workspace, with the rights of its user: paths, links and permissions are the
workspace's own affair, and CodeHub opens no file. Changes are audited, and what administrators read of others.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Any
from uuid import UUID

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.requests import ClientDisconnect

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.inside.admission import admitted
from codehub.api.inside.exchange import exchange
from codehub.api.inside.held import Held
from codehub.api.inside.query import Path, Wake
from codehub.api.inside.ranges import content_headers, find_range, tar_attachment
from codehub.api.middleware import MAX_UPLOAD_BYTES
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.files import (
    MAX_ENTRIES,
    DirectoryListing,
    FileEntry,
    InsideAnswer,
    Move,
    NewDirectory,
)
from codehub.api.state import AppState, State
from codehub.services import inside as service
from codehub.services.identity import Principal

router = api_router("/workspaces/{workspace_id}/files", "inside")

_READS = (
    "unauthorized", "not_found", "file_not_found", "deleted", "not_running", "waking", "file_conflict",
    "file_refused", "csrf", "validation_failed", "busy", "limit_user", "limit_global", "unavailable",
)  # fmt: skip
_READING = problems.documented(*_READS)
_CHANGING = problems.documented(*_READS, "bad_request", "too_large", "unsupported_media_type", "no_space")
_BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}


_UPLOAD = {"requestBody": {"required": True, "content": {"application/octet-stream": _BYTES}}}


@router.get("", summary="List a directory", responses=_READING)
async def list_directory(
    workspace_id: UUID, caller: Caller, state: State, path: Path = "", wake: Wake = False
) -> DirectoryListing:
    """At most 10 000 entries, by name; links are not followed."""
    request = {"do": "list", "path": path, "limit": MAX_ENTRIES}
    answer = await _ask(workspace_id, caller, state, request, wake=wake)
    return DirectoryListing(entries=answer.entries, truncated=answer.truncated)


@router.get("/stat", summary="One file", responses=_READING)
async def stat_file(
    workspace_id: UUID, caller: Caller, state: State, path: Path = "", wake: Wake = False
) -> FileEntry:
    """A link is told itself, not what it leads to."""
    return _entry(await _ask(workspace_id, caller, state, {"do": "stat", "path": path}, wake=wake))


@router.get(
    "/content",
    summary="Read a file",
    response_model=None,
    response_class=Response,
    responses={
        200: {"description": "The file", "content": {"application/octet-stream": _BYTES}},
        206: {"description": "A part of it", "content": {"application/octet-stream": _BYTES}},
        **_READING,
    },
)
async def read_file(
    workspace_id: UUID,
    caller: Caller,
    state: State,
    path: Path = "",
    wake: Wake = False,
    range_: Annotated[
        str | None, Header(alias="Range", description="One range: bytes=0-99, bytes=100-")
    ] = None,
) -> Response:
    """The whole file, or one range of it. Links are followed."""
    asked = find_range(range_)
    request = {"do": "read", "path": path, "offset": asked.offset, "length": asked.length}
    async with AsyncExitStack() as resources:
        access = await resources.enter_async_context(admitted(workspace_id, caller, state, wake=wake))
        await _record_if_foreign(workspace_id, caller, state, request)
        opened = await resources.enter_async_context(exchange(access, workspace_id, request))
        answer = await opened.answer()
        status, headers = content_headers(asked, _entry(answer), answer.length)
        body = StreamingResponse(opened.data(answer.length), status_code=status, headers=headers)
        body.raw_headers.append((b"content-type", b"application/octet-stream"))
        return Held(body, resources.pop_all())


@router.put("/content", summary="Write a file", responses=_CHANGING, openapi_extra=_UPLOAD)
async def write_file(
    workspace_id: UUID,
    request: Request,
    caller: Caller,
    state: State,
    path: Path = "",
    wake: Wake = False,
    parents: Annotated[bool, Query(description="Make the directories above it")] = False,
    overwrite: Annotated[bool, Query(description="Replace one that exists")] = True,
) -> FileEntry:
    """All or nothing: it gets its name when the last byte is on the disk. An existing file keeps its mode."""
    wanted = {
        "do": "write",
        "path": path,
        "parents": parents,
        "overwrite": overwrite,
        "limit": MAX_UPLOAD_BYTES,
    }
    return await _send(workspace_id, request, caller, state, wanted, wake=wake)


@router.post("/directory", summary="Make a directory", responses=_CHANGING, status_code=201)
async def make_directory(
    workspace_id: UUID, body: NewDirectory, caller: Caller, state: State, wake: Wake = False
) -> FileEntry:
    request = {"do": "mkdir", **body.model_dump()}
    return _entry(await _change(workspace_id, caller, state, request, wake=wake))


@router.post("/move", summary="Move or rename", responses=_CHANGING)
async def move_file(
    workspace_id: UUID, body: Move, caller: Caller, state: State, wake: Wake = False
) -> FileEntry:
    """Within one file system; at once."""
    return _entry(await _change(workspace_id, caller, state, {"do": "move", **body.model_dump()}, wake=wake))


@router.delete("", summary="Delete", responses=_CHANGING, status_code=204)
async def delete_file(
    workspace_id: UUID,
    caller: Caller,
    state: State,
    path: Path = "",
    wake: Wake = False,
    recursive: Annotated[bool, Query(description="A directory with all in it")] = False,
) -> None:
    """Links are deleted, not followed. The home itself is refused."""
    request = {"do": "delete", "path": path, "recursive": recursive}
    await _change(workspace_id, caller, state, request, wake=wake)


@router.get(
    "/archive",
    summary="Download a directory",
    response_model=None,
    response_class=Response,
    responses={200: {"description": "A tar", "content": {"application/x-tar": _BYTES}}, **_READING},
)
async def download(
    workspace_id: UUID, caller: Caller, state: State, path: Path = "", wake: Wake = False
) -> Response:
    """As a tar, made while it is sent. What the workspace's user may not read is left out, sockets and devices too."""
    async with AsyncExitStack() as resources:
        access = await resources.enter_async_context(admitted(workspace_id, caller, state, wake=wake))
        request = {"do": "pack", "path": path}
        await _record_if_foreign(workspace_id, caller, state, request)
        opened = await resources.enter_async_context(exchange(access, workspace_id, request))
        await opened.answer()
        body = StreamingResponse(opened.framed_data(), media_type="application/x-tar")
        body.headers["Content-Disposition"] = tar_attachment(path)
        return Held(body, resources.pop_all())


@router.put("/archive", summary="Upload a directory", responses=_CHANGING, openapi_extra=_UPLOAD)
async def upload(
    workspace_id: UUID, request: Request, caller: Caller, state: State, path: Path = "", wake: Wake = False
) -> FileEntry:
    """A tar is unpacked into a directory, which is made. Names and links in it lead nowhere else.

    Each file is complete or not there; a tar that ends in the middle leaves the files before.
    """
    wanted = {"do": "unpack", "path": path, "limit": MAX_UPLOAD_BYTES}
    return await _send(workspace_id, request, caller, state, wanted, wake=wake)


async def _ask(
    workspace_id: UUID, caller: Principal, state: AppState, request: dict[str, Any], *, wake: bool
) -> InsideAnswer:
    async with admitted(workspace_id, caller, state, wake=wake) as access:
        await _record_if_foreign(workspace_id, caller, state, request)
        async with exchange(access, workspace_id, request) as opened:
            return await opened.answer()


async def _change(
    workspace_id: UUID, caller: Principal, state: AppState, request: dict[str, Any], *, wake: bool
) -> InsideAnswer:
    async with admitted(workspace_id, caller, state, wake=wake) as access:
        await _record(workspace_id, caller, state, request)
        async with exchange(access, workspace_id, request) as opened:
            return await opened.answer()


async def _send(
    workspace_id: UUID,
    source: Request,
    caller: Principal,
    state: AppState,
    request: dict[str, Any],
    *,
    wake: bool,
) -> FileEntry:
    async with admitted(workspace_id, caller, state, wake=wake) as access:
        await _record(workspace_id, caller, state, request)
        async with exchange(access, workspace_id, request) as opened:
            answering = opened.answer_while(_pieces(source))
            return _entry(await answering)


async def _pieces(source: Request) -> AsyncIterator[bytes]:
    try:
        async for piece in source.stream():
            yield piece
    except ClientDisconnect:
        raise problems.Refused("bad_request", "The upload ended in the middle.") from None


async def _record_if_foreign(
    workspace_id: UUID, caller: Principal, state: AppState, request: dict[str, Any]
) -> None:
    """Only administrators see what is not theirs."""
    if caller.user.is_admin:
        found = await find_visible(workspace_id, caller, state)
        if found.view.owner_id != caller.user.id:
            await _record(workspace_id, caller, state, request)


async def _record(workspace_id: UUID, caller: Principal, state: AppState, request: dict[str, Any]) -> None:
    async with state.sessions.begin() as session:
        detail = {name: str(request[name])[:500] for name in ("path", "target") if name in request}
        await service.record_use(
            session, f"files.{request['do']}", workspace_id, actor=caller.actor, **detail
        )


def _entry(answer: InsideAnswer) -> FileEntry:
    if answer.entry is None:
        raise problems.Refused("unavailable", "The workspace answered something else.")
    return answer.entry
