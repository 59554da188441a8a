"""Routes for snapshots (``/workspaces/{id}/snapshots``) and copies (``/workspaces/{id}/copies``).

Authorization and the meaning of each call are in ``services/snapshots`` and ``services/copies``.
"""

from uuid import UUID

from fastapi import Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import answers, find_visible
from codehub.api.schemas.snapshots import NewCopy, NewSnapshot, RenamedSnapshot
from codehub.api.state import State
from codehub.archives.keys import ArchivePath, parse_archive_key
from codehub.archives.meta import ArchiveMeta
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.generations import ChosenArchive
from codehub.services import copies, snapshots
from codehub.services.workspaces import WorkspaceValues

router = api_router("/workspaces/{workspace_id}", "workspaces")

_CHANGED = ("unauthorized", "not_found", "validation_failed", "csrf", "deleted")


@router.post(
    "/snapshots",
    summary="Take a snapshot, or keep an archive as one",
    **answers(202, *_CHANGED, "snapshot_refused", "unavailable"),
)
async def take_snapshot(workspace_id: UUID, body: NewSnapshot, caller: Caller, state: State) -> Response:
    """A snapshot is an archive with a name, kept until you delete it. The volume stays.

    Of the present home, which has to sleep: until it is made it is wanted (`snapshot_as`), and asking again renames
    it; a workspace that is archived already has it at once. With `op_id` and `attempt`: that archive is kept.
    """
    await find_visible(workspace_id, caller, state)
    archive = None
    if body.op_id is not None and body.attempt is not None:
        archive = await _archive(state, workspace_id, body.op_id, body.attempt)
    async with state.sessions.begin() as session:
        if archive is not None:
            record, _ = await snapshots.keep(session, workspace_id, body.name, archive, actor=caller.actor)
        else:
            record, _ = await snapshots.take(session, workspace_id, body.name, actor=caller.actor)
    return await state.answer(record, status=202)


@router.patch("/snapshots/{snapshot_id}", summary="Rename a snapshot", **answers(200, *_CHANGED))
async def rename_snapshot(
    workspace_id: UUID, snapshot_id: UUID, body: RenamedSnapshot, caller: Caller, state: State
) -> Response:
    async with state.sessions.begin() as session:
        record = await snapshots.rename(session, workspace_id, snapshot_id, body.name, actor=caller.actor)
    return await state.answer(record)


@router.delete("/snapshots/{snapshot_id}", summary="Delete a snapshot", **answers(202, *_CHANGED))
async def delete_snapshot(workspace_id: UUID, snapshot_id: UUID, caller: Caller, state: State) -> Response:
    """Its archive is kept no longer than any other. One that is not made yet is cancelled. Idempotent."""
    async with state.sessions.begin() as session:
        record = await snapshots.delete(session, workspace_id, snapshot_id, actor=caller.actor)
    return await state.answer(record, status=202)


@router.post(
    "/copies",
    summary="Open a copy",
    **answers(201, *_CHANGED, "name_taken", "not_copyable", "limit_user", "limit_global", "unavailable"),
)
async def open_copy(workspace_id: UUID, body: NewCopy, caller: Caller, state: State) -> Response:
    """A new workspace of the same owner whose home is one of this one's archives. No data is copied in the store.

    Without `op_id` and `attempt`: the present home of an archived workspace. Of one that sleeps on its volume, take a
    snapshot first, and copy that. The source may be deleted afterwards.
    """
    source = await find_visible(workspace_id, caller, state)
    if body.op_id is not None and body.attempt is not None:
        archive = await _archive(state, workspace_id, body.op_id, body.attempt)
    else:
        path = parse_archive_key(copies.current_archive(source.view))
        assert path is not None, "the row names archives by their keys"
        archive = await _archive(state, path.workspace_id, path.op_id, path.attempt)
    new = WorkspaceValues(
        name=body.name,
        image_ref=source.view.image_ref,
        description=source.description,
        standby_ttl_seconds=source.view.standby_ttl_seconds,
        archive_ttl_seconds=source.view.archive_ttl_seconds,
        start=body.start,
    )
    async with state.sessions.begin() as session:
        record = await copies.copy(
            session, workspace_id, archive, new, actor=caller.actor, limits=state.settings.limits
        )
    return await state.answer(record, status=201)


async def _archive(state: State, workspace_id: UUID, op_id: UUID, attempt: str) -> ChosenArchive:
    try:
        path, meta = await state.deps.archives.find_attempt(workspace_id, op_id, attempt)
    except EffectError as error:
        if error.failure is FailureCode.ARCHIVE_NOT_FOUND:
            raise problems.Refused("not_found", "There is no such archive.") from error
        raise
    return _chosen(path, meta)


def _chosen(path: ArchivePath, meta: ArchiveMeta) -> ChosenArchive:
    sizes = {"bytes": meta.data_bytes, "files": meta.files}
    return ChosenArchive(path.key, meta.created_at, meta.sha256, sizes=sizes)
