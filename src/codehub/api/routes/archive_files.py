"""Routes for the files in a kept archive: ``/workspaces/{id}/archives/{op_id}/{attempt}/files``.

Nothing is woken or restored to look. What people read of their own is not audited; what administrators read of others
is, and every file that is put back.
"""

from contextlib import aclosing
from typing import Annotated, Any
from uuid import UUID

from fastapi import Path as PathParameter
from fastapi import Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.inside.admission import admitted
from codehub.api.inside.exchange import exchange
from codehub.api.inside.query import Path, Wake
from codehub.api.inside.ranges import file_attachment, tar_attachment
from codehub.api.live.downloads import Download
from codehub.api.middleware import MAX_UPLOAD_BYTES
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import find_visible
from codehub.api.schemas.files import MAX_ENTRIES, DirectoryListing, FileEntry, PutBack
from codehub.api.state import AppState, State
from codehub.archives.contents import ArchiveContents, Entry, EntryKind, WrongKind, clean_path
from codehub.archives.keys import ArchivePath
from codehub.domain.errors import EffectError, FailureCode
from codehub.services.identity import Principal
from codehub.services.inside import record_use

router = api_router("/workspaces/{workspace_id}/archives/{op_id}/{attempt}/files", "workspaces")

Attempt = Annotated[
    str, PathParameter(pattern="^[0-9a-f]{32}$", description="The part of its key after the operation")
]
_READS = (
    "unauthorized", "not_found", "file_not_found", "file_conflict", "archive_unreadable", "validation_failed",
    "archive_indexing", "unavailable",
)  # fmt: skip
_READING = problems.documented(*_READS)
_DOWNLOADING = problems.documented(*_READS, "downloads_busy")
_BYTES: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}


@router.get("", summary="List a folder of an archive", responses=_READING)
async def list_archived(
    workspace_id: UUID, op_id: UUID, attempt: Attempt, caller: Caller, state: State, path: Path = ""
) -> DirectoryListing:
    """At most 10 000 entries, by name. The first look into an archive reads all of it once; later ones are fast."""
    opened = await _open(ArchivePath(workspace_id, op_id, attempt), caller, state, path)
    found = await opened.list(clean_path(path), limit=MAX_ENTRIES)
    return DirectoryListing(entries=[_rendered(each) for each in found.entries], truncated=found.truncated)


@router.get("/stat", summary="One file of an archive", responses=_READING)
async def stat_archived(
    workspace_id: UUID, op_id: UUID, attempt: Attempt, caller: Caller, state: State, path: Path = ""
) -> FileEntry:
    opened = await _open(ArchivePath(workspace_id, op_id, attempt), caller, state, path)
    return _rendered(await opened.stat(clean_path(path)))


@router.get(
    "/content",
    summary="Read a file of an archive",
    response_model=None,
    response_class=Response,
    responses={
        200: {"description": "The file", "content": {"application/octet-stream": _BYTES}},
        **_DOWNLOADING,
    },
)
async def read_archived(
    workspace_id: UUID, op_id: UUID, attempt: Attempt, caller: Caller, state: State, path: Path = ""
) -> Response:
    """The whole file. Links are not followed. At most two downloads at a time."""
    opened = await _open(ArchivePath(workspace_id, op_id, attempt), caller, state, path)
    entry = await _file(opened, path)
    return Download(
        opened.read(entry.path),
        size=entry.size,
        headers={
            "Content-Type": "application/octet-stream",
            "Content-Disposition": file_attachment(entry.name),
        },
        caller=caller,
        downloads=state.downloads,
    )


@router.get(
    "/archive",
    summary="Download a folder of an archive",
    response_model=None,
    response_class=Response,
    responses={200: {"description": "A tar", "content": {"application/x-tar": _BYTES}}, **_DOWNLOADING},
)
async def pack_archived(
    workspace_id: UUID, op_id: UUID, attempt: Attempt, caller: Caller, state: State, path: Path = ""
) -> Response:
    """As a tar, made while it is sent. At most two downloads at a time."""
    opened = await _open(ArchivePath(workspace_id, op_id, attempt), caller, state, path)
    folder = clean_path(path)
    await opened.stat(folder)
    return Download(
        opened.pack(folder),
        size=None,
        headers={"Content-Type": "application/x-tar", "Content-Disposition": tar_attachment(path)},
        caller=caller,
        downloads=state.downloads,
    )


@router.post(
    "/put-back",
    summary="Put a file of an archive back",
    responses=problems.documented(
        *_READS, "csrf", "deleted", "not_running", "waking", "file_refused", "busy", "limit_user", "limit_global",
        "too_large", "no_space",
    ),
)  # fmt: skip
async def put_back(
    workspace_id: UUID,
    op_id: UUID,
    attempt: Attempt,
    body: PutBack,
    caller: Caller,
    state: State,
    wake: Wake = False,
) -> FileEntry:
    """Write one file into the home of a workspace that runs. All or nothing; the folders above it are made.

    A file that exists is refused unless `overwrite` is set, and then keeps its mode.
    """
    archive = ArchivePath(workspace_id, op_id, attempt)
    opened = await _open(archive, caller, state, body.path)
    entry = await _file(opened, body.path)
    if entry.size > MAX_UPLOAD_BYTES:
        raise problems.Refused("too_large", "The file is larger than one may be written at once.")
    target = body.target or body.path
    request = {
        "do": "write", "path": target, "parents": True, "overwrite": body.overwrite, "limit": MAX_UPLOAD_BYTES,
    }  # fmt: skip
    async with admitted(workspace_id, caller, state, wake=wake) as access:
        async with state.sessions.begin() as session:
            await record_use(
                session,
                "files.put_back",
                workspace_id,
                actor=caller.actor,
                archive_key=archive.key,
                path=body.path[:500],
                target=target[:500],
            )
        # If this process dies, or the archive ends early, what was sent is never complete, and not kept.
        async with (
            exchange(access, workspace_id, request) as sending,
            aclosing(opened.read(entry.path)) as pieces,
        ):
            answer = await sending.answer_while(pieces)
    if answer.entry is None:
        raise problems.Refused("unavailable", "The workspace answered something else.")
    return answer.entry


async def _open(archive: ArchivePath, caller: Principal, state: AppState, path: str) -> ArchiveContents:
    """Open an archive of a workspace the caller may see; an administrator's look at another's is audited."""
    found = await find_visible(archive.workspace_id, caller, state)
    try:
        archive, meta = await state.deps.archives.find_attempt(
            archive.workspace_id, archive.op_id, archive.attempt
        )
    except EffectError as error:
        if error.failure is FailureCode.ARCHIVE_NOT_FOUND:
            raise problems.Refused("not_found", "There is no such archive.") from error
        raise
    if found.view.owner_id != caller.user.id:
        async with state.sessions.begin() as session:
            await record_use(
                session,
                "archive.look",
                archive.workspace_id,
                actor=caller.actor,
                archive_key=archive.key,
                path=path[:500],
            )
    return state.deps.contents.open(archive, meta)


async def _file(opened: ArchiveContents, path: str) -> Entry:
    entry = await opened.stat(clean_path(path))
    if entry.kind is not EntryKind.FILE:
        raise WrongKind("This is not a file.")
    return entry


def _rendered(entry: Entry) -> FileEntry:
    return FileEntry(
        name=entry.name[:1024],
        type=entry.kind.value,
        size=entry.size,
        mode=f"{entry.mode:04o}",
        modified_at=entry.modified_at,
        target=None if entry.target is None else entry.target.decode(errors="replace")[:4096],
    )
