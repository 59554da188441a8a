"""The timeline of a workspace: changes written by the trigger, and notes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import insert, literal, type_coerce
from sqlalchemy import select as select_columns
from sqlmodel import col, select

from codehub.store.db.records import FromJson, record
from codehub.store.db.session import Session
from codehub.store.db.statements import Page
from codehub.store.schema.tables import Workspace, WorkspaceEvent, jsonb
from codehub.store.schema.tables import workspace_events as e

CHANNEL = "workspace_changes"
"""The NOTIFY channel: ``{id, owner_id, version, changed[]}``, once per change people can see."""


@dataclass(frozen=True)
class EventRecord:
    """One change. ``changes`` maps a column to [before, after]; long texts are cut."""

    seq: int
    version: int
    at: datetime
    changes: Mapping[str, tuple[object, object]]
    actor: str | None
    cause: str | None


def _changes(value: Mapping[str, object] | None) -> dict[str, tuple[object, object]]:
    pairs = (value or {}).items()
    return {name: (pair[0], pair[1]) for name, pair in pairs if isinstance(pair, list)}


_EVENT = record(
    EventRecord, WorkspaceEvent, changes=type_coerce(col(WorkspaceEvent.changes), FromJson(_changes))
)


async def append_note(session: Session, workspace_id: UUID, *, actor: str, cause: str) -> None:
    """Append a timeline entry without a change, in the transaction it is about."""
    note = select_columns(
        col(Workspace.id), col(Workspace.version), literal({}, jsonb), literal(actor), literal(cause)
    )
    columns = ["workspace_id", "version", "changes", "actor", "cause"]
    await session.exec(insert(e).from_select(columns, note.where(col(Workspace.id) == workspace_id)))


async def list_page(
    session: Session, workspace_id: UUID, *, cursor: int | None = None, limit: int = 50
) -> Page[EventRecord]:
    """List the timeline, newest first."""
    statement = (
        select(_EVENT)
        .where(col(WorkspaceEvent.workspace_id) == workspace_id)
        .order_by(col(WorkspaceEvent.seq).desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        statement = statement.where(col(WorkspaceEvent.seq) < cursor)
    items = await session.exec(statement)
    return Page(items[:limit], str(items[limit - 1].seq) if len(items) > limit else None)
