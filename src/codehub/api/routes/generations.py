"""Routes to return a workspace to an earlier archive: ``/workspaces/{id}/restore``."""

from uuid import UUID

from fastapi import Response

from codehub.api import problems
from codehub.api.auth import Caller
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import answers, find_visible
from codehub.api.schemas.workspace_details import RestoreArchive
from codehub.api.state import State
from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.generations import ChosenArchive
from codehub.services import generations as service

router = api_router("/workspaces/{workspace_id}/restore", "workspaces")

_CHANGED = ("unauthorized", "not_found", "validation_failed", "csrf", "deleted")


@router.post(
    "",
    summary="Return to an earlier archive",
    **answers(202, *_CHANGED, "archive_not_restorable", "limit_user", "limit_global", "unavailable"),
)
async def restore(workspace_id: UUID, body: RestoreArchive, caller: Caller, state: State) -> Response:
    """The present home is archived first, so that you can come back. Then this archive becomes the home.

    If the present home cannot be archived, it stays as it is and the return is given up (`return_given_up`). The
    desired state stays, unless `start` is set. Idempotent; a later choice replaces an earlier one.
    """
    await find_visible(workspace_id, caller, state)
    try:
        path, meta = await state.deps.archives.find_attempt(workspace_id, body.op_id, body.attempt)
    except EffectError as error:
        if error.failure is FailureCode.ARCHIVE_NOT_FOUND:
            raise problems.Refused("not_found", "There is no such archive.") from error
        raise
    chosen = ChosenArchive(
        path.key, meta.created_at, meta.sha256, sizes={"bytes": meta.data_bytes, "files": meta.files}
    )
    async with state.sessions.begin() as session:
        record = await service.restore(
            session,
            workspace_id,
            chosen,
            start=body.start,
            actor=caller.actor,
            limits=state.settings.limits,
        )
    return await state.answer(record, status=202)


@router.delete("", summary="Stay with the present home", **answers(202, *_CHANGED))
async def cancel_restore(workspace_id: UUID, caller: Caller, state: State) -> Response:
    """Cancel a return that waits. Idempotent: without one nothing changes."""
    async with state.sessions.begin() as session:
        record = await service.cancel_restore(session, workspace_id, actor=caller.actor)
    return await state.answer(record, status=202)
