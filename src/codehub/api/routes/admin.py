"""Routes for operators: ``/admin``."""

from dataclasses import asdict

from codehub.api import problems
from codehub.api.auth import Admin
from codehub.api.routes.paging import Limit, NumberCursor
from codehub.api.routes.router import api_router
from codehub.api.schemas.admin import AuditEntry, Leader, Orphan, Overview, Setting
from codehub.api.schemas.base import Page
from codehub.api.state import State
from codehub.store.accounts import audit

router = api_router("/admin", "admin")

_ADMIN = problems.documented("unauthorized", "forbidden")


@router.get("/overview", summary="Counts, leaders, archives", response_model=Overview, responses=_ADMIN)
async def overview(caller: Admin, state: State) -> Overview:
    del caller
    seen = await state.overviews.look()
    leaders = [
        Leader(
            name=term.lock_name,
            holder_id=term.holder_id,
            acquired_at=term.acquired_at,
            epoch=term.epoch,
            last_tick_at=term.last_tick_at,
        )
        for term in seen.terms
        if term.is_held
    ]
    return Overview(counts=dict(seen.counts), leaders=leaders, archive_bytes=seen.archive_bytes)


@router.get("/orphans", summary="Orphans", response_model=Page[Orphan], responses=_ADMIN)
async def orphans(caller: Admin, state: State) -> Page[Orphan]:
    """Containers and volumes without a workspace, and archives about to be deleted."""
    del caller
    found = await state.overviews.orphans()
    return Page(items=[Orphan.model_validate(asdict(each)) for each in found], next_cursor=None)


@router.get("/settings", summary="Settings of this replica", response_model=Page[Setting], responses=_ADMIN)
async def settings(caller: Admin, state: State) -> Page[Setting]:
    """Every setting with the value it has now. Secrets say only whether they are set."""
    del caller
    items = [Setting.model_validate(asdict(each)) for each in state.settings.values]
    return Page(items=items, next_cursor=None)


@router.get(
    "/audit",
    summary="Audit log",
    response_model=Page[AuditEntry],
    responses={**_ADMIN, **problems.documented("validation_failed")},
)
async def audit_log(
    caller: Admin, state: State, cursor: NumberCursor = None, limit: Limit = 50
) -> Page[AuditEntry]:
    """Newest first."""
    del caller
    async with state.reading() as session:
        page = await audit.list_page(session, cursor=cursor, limit=limit)
    items = [AuditEntry.model_validate(asdict(each)) for each in page.items]
    return Page(items=items, next_cursor=page.next_cursor)
