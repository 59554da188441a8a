"""Write the claims and completions of one Reconciler tick in bulk.

The rules are those of ``claims``: a claim is a compare-and-set from what the plan read, and every later write
is fenced with ``op_id`` and ``operation``. Only the number of round trips differs. Fifty simultaneous starts
are claimed by one statement; a workspace that does not match (another writer was first) is missing from the
result, and the others are written all the same.

A process that dies before the commit has claimed nothing; one that dies after it leaves operations in flight,
which the next leader adopts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from sqlalchemy import BigInteger, Boolean, DateTime, Text, Uuid, and_, null, update
from sqlmodel import col

from codehub.domain.states import Operation
from codehub.domain.workspace import HomeContext, WorkspaceView
from codehub.store.db.session import Session
from codehub.store.db.statements import clock, json_text, param_rows, params
from codehub.store.schema.tables import (
    Workspace,
    desired_state_type,
    health_status_type,
    jsonb,
    observed_status_type,
    operation_type,
)
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.claims import ClaimedOperation
from codehub.store.workspaces.intents import USED_NOW
from codehub.store.workspaces.records import VIEW


@dataclass(frozen=True)
class Step:
    """An operation to begin, and the home context written with the claim.

    ``home`` comes from ``domain/home.at_claim``.
    """

    workspace: WorkspaceView
    operation: Operation
    home: HomeContext


@dataclass(frozen=True)
class Completion:
    """An operation whose target was observed, and the home context after it.

    ``home`` comes from ``domain/home.at_completion``.
    """

    claim: ClaimedOperation
    home: HomeContext
    acted_at: datetime | None


_PLANNED = param_rows(
    "planned",
    id=Uuid(),
    operation=operation_type,
    op_id=Uuid(),
    op_seq=BigInteger(),
    desired_state=desired_state_type,
    observed_status=observed_status_type,
    health_status=health_status_type,
    archive_key=Text(),
    deleted_at=DateTime(timezone=True),
    restore_from=Text(),
    snapshot_as=Text(),
    has_error=Boolean(),
    home=jsonb,
)
_CLAIM = (
    update(w)
    .where(
        col(Workspace.id) == _PLANNED.c.id,
        col(Workspace.operation) == Operation.NONE,
        # Every column a plan reads, as in ``claims``: no change made since is overwritten.
        col(Workspace.op_seq) == _PLANNED.c.op_seq,
        col(Workspace.desired_state) == _PLANNED.c.desired_state,
        col(Workspace.observed_status) == _PLANNED.c.observed_status,
        col(Workspace.health_status) == _PLANNED.c.health_status,
        col(Workspace.archive_key).is_not_distinct_from(_PLANNED.c.archive_key),
        col(Workspace.deleted_at).is_not_distinct_from(_PLANNED.c.deleted_at),
        json_text(col(Workspace.restore_from), "archive_key").is_not_distinct_from(_PLANNED.c.restore_from),
        json_text(col(Workspace.snapshot_as), "id").is_not_distinct_from(_PLANNED.c.snapshot_as),
        col(Workspace.error_info).is_not(None) == _PLANNED.c.has_error,
    )
    .values(
        operation=_PLANNED.c.operation,
        op_id=_PLANNED.c.op_id,
        op_seq=col(Workspace.op_seq) + 1,
        op_started_at=clock(),
        op_acted_at=None,
        error_count=0,
        last_retry_at=None,
        home_ctx=_PLANNED.c.home,
    )
    .returning(VIEW)
)

_DONE = param_rows(
    "done",
    id=Uuid(),
    op_id=Uuid(),
    operation=operation_type,
    acted_at=DateTime(timezone=True),
    home=jsonb,
)
_COMPLETE = (
    update(w)
    .where(
        and_(
            col(Workspace.id) == _DONE.c.id,
            col(Workspace.op_id) == _DONE.c.op_id,
            col(Workspace.operation) == _DONE.c.operation,
        )
    )
    .values(
        operation=Operation.NONE,
        op_acted_at=_DONE.c.acted_at,
        error_count=0,
        error_info=null(),
        last_retry_at=None,
        home_ctx=_DONE.c.home,
    )
    .values(USED_NOW)
    .returning(col(Workspace.id))
)


async def claim_all(session: Session, steps: Sequence[Step]) -> dict[UUID, WorkspaceView]:
    """Claim workspaces that are still as planned, by compare-and-set.

    Returns them as claimed; those missing from the result are planned again. The caller has locked the rows
    in order (``row_locks``).
    """
    views = [step.workspace for step in steps]
    arrays = params(
        id=[ws.id for ws in views],
        operation=[step.operation for step in steps],
        op_id=[uuid4() for _ in steps],
        op_seq=[ws.op_seq for ws in views],
        desired_state=[ws.desired_state for ws in views],
        observed_status=[ws.observed_status for ws in views],
        health_status=[ws.health_status for ws in views],
        archive_key=[ws.archive_key for ws in views],
        deleted_at=[ws.deleted_at for ws in views],
        restore_from=[ws.restore_from.archive_key if ws.restore_from else None for ws in views],
        snapshot_as=[str(ws.snapshot_as.id) if ws.snapshot_as else None for ws in views],
        has_error=[ws.error_info is not None for ws in views],
        home=[step.home.as_json() for step in steps],
    )
    return {ws.id: ws for (ws,) in await session.exec(_CLAIM, arrays)}


async def complete_all(session: Session, done: Sequence[Completion]) -> set[UUID]:
    """Complete operations whose targets were observed; return the ids written. Fenced.

    A completion counts as use. The caller has locked the rows in order (``row_locks``).
    """
    arrays = params(
        id=[each.claim.workspace_id for each in done],
        op_id=[each.claim.op_id for each in done],
        operation=[each.claim.operation for each in done],
        acted_at=[each.acted_at for each in done],
        home=[each.home.as_json() for each in done],
    )
    return {each for (each,) in await session.exec(_COMPLETE, arrays)}
