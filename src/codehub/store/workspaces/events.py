"""The timeline of a workspace: changes written by the trigger, and notes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import insert, literal, select

from codehub.store.db.session import Session
from codehub.store.db.statements import Page
from codehub.store.schema.tables import jsonb
from codehub.store.schema.tables import workspace_events as e
from codehub.store.schema.tables import workspaces as w

CHANNEL = "workspace_changes"
"""The NOTIFY channel: ``{id, owner_id, version, changed[]}``, once per change people can see."""


@dataclass(frozen=True)
class EventRecord:
    """One change. ``changes`` maps a column to [before, after]; long texts are cut."""

    seq: int
    version: int
    at: datetime
    changes: Mapping[str, Any]
    actor: str | None
    cause: str | None


async def append_note(session: Session, workspace_id: UUID, *, actor: str, cause: str) -> None:
    """Append a timeline entry without a change, in the transaction it is about."""
    note = select(w.c.id, w.c.version, literal({}, jsonb), literal(actor), literal(cause))
    columns = ["workspace_id", "version", "changes", "actor", "cause"]
    await session.execute(insert(e).from_select(columns, note.where(w.c.id == workspace_id)))


async def list_page(
    session: Session, workspace_id: UUID, *, cursor: int | None = None, limit: int = 50
) -> Page[EventRecord]:
    """List the timeline, newest first."""
    statement = (
        select(e.c.seq, e.c.version, e.c.at, e.c.changes, e.c.actor, e.c.cause)
        .where(e.c.workspace_id == workspace_id)
        .order_by(e.c.seq.desc())
        .limit(limit + 1)
    )
    if cursor is not None:
        statement = statement.where(e.c.seq < cursor)
    items = [EventRecord(*row) for row in await session.execute(statement)]
    return Page(items[:limit], str(items[limit - 1].seq) if len(items) > limit else None)
