"""Routes for what disagrees, and its repairs: ``/admin/findings``."""

from uuid import UUID

from fastapi import Response

from codehub.api import problems
from codehub.api.auth import Admin
from codehub.api.routes.router import api_router
from codehub.api.routes.workspaces import answers, default_image
from codehub.api.schemas.base import Page
from codehub.api.schemas.findings import Finding, FindingRepair
from codehub.api.state import State
from codehub.services import findings as service
from codehub.services import workspaces
from codehub.services.findings import Repair
from codehub.services.identity import Principal
from codehub.services.workspaces import WorkspaceValues
from codehub.store.accounts import users
from codehub.store.db import statements
from codehub.store.workspaces import queries
from codehub.store.workspaces.records import WorkspaceRecord

router = api_router("/admin/findings", "admin")


@router.get(
    "",
    summary="What disagrees",
    response_model=Page[Finding],
    responses=problems.documented("unauthorized", "forbidden", "unavailable"),
)
async def list_findings(caller: Admin, state: State) -> Page[Finding]:
    """Workspaces in error, operations that take long, and what exists without a workspace, with what repairs it."""
    del caller
    orphans = await state.overviews.orphans()
    async with state.reading() as session:
        now = await statements.now(session)
        troubled = await queries.list_troubled(session, began_before=now - service.LONG_AFTER)
        found = service.list_findings(troubled, orphans, now=now)
        owners = await users.names_of(session, {each.owner_id for each in found if each.owner_id})
    items = [
        Finding(
            kind=each.kind,
            subject=each.subject,
            workspace_id=each.workspace_id,
            name=each.name,
            owner=owners.get(each.owner_id) if each.owner_id else None,
            since=each.since,
            bytes=each.bytes,
            message=each.message,
            operation=each.operation,
            repairs=list(each.repairs),
        )
        for each in found
    ]
    return Page(items=items, next_cursor=None)


@router.post(
    "/{workspace_id}/repair",
    summary="Repair what disagrees",
    **answers(
        202,
        "unauthorized",
        "forbidden",
        "csrf",
        "validation_failed",
        "not_found",
        "deleted",
        "name_taken",
        "unknown_image",
        "nothing_to_adopt",
        "archive_not_restorable",
        "limit_user",
        "limit_global",
        "unavailable",
    ),
)
async def repair(workspace_id: UUID, body: FindingRepair, caller: Admin, state: State) -> Response:
    """`recover` lifts an error. `return_to_newest`: its newest archive in the store becomes the home. `adopt` makes a
    workspace of yours for a volume or an archive that has none: a volume is archived, an archive becomes its home.

    Nothing is started or overwritten. Idempotent, but for `adopt`, which is refused once there is a workspace.
    """
    return await state.answer(await _repaired(workspace_id, body, caller, state), status=202)


async def _repaired(
    workspace_id: UUID, body: FindingRepair, caller: Principal, state: State
) -> WorkspaceRecord:
    match body.repair:
        case Repair.RECOVER:
            async with state.sessions.begin() as session:
                return await workspaces.recover(
                    session, workspace_id, actor=caller.actor, limits=state.settings.limits
                )
        case Repair.RETURN_TO_NEWEST:
            return await state.repairs.return_to_newest(workspace_id, actor=caller.actor)
        case Repair.ADOPT:
            new = WorkspaceValues(
                name=body.name or f"found-{workspace_id.hex[-8:]}",
                image_ref=await default_image(state, body.image_ref),
                standby_ttl_seconds=state.settings.standby_ttl_seconds,
                archive_ttl_seconds=state.settings.archive_ttl_seconds,
            )
            return await state.repairs.adopt(workspace_id, new, owner_id=caller.user.id, actor=caller.actor)
