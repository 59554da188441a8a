"""Append to and list the audit log: who did what.

An entry is appended in the acting transaction, so neither exists without the other.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import bindparam, insert
from sqlmodel import col, select

from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import Page
from codehub.store.schema.tables import AuditEntry
from codehub.store.schema.tables import audit_log as a


@dataclass(frozen=True)
class AuditRecord:
    """One audit entry."""

    seq: int
    at: datetime
    actor: str
    action: str
    subject: str | None
    detail: Mapping[str, object]


_APPEND = insert(a).values({name: bindparam(name) for name in ("actor", "action", "subject", "detail")})
_ENTRY = record(AuditRecord, AuditEntry)


async def append(
    session: Session,
    *,
    actor: str,
    action: str,
    subject: str | None = None,
    detail: Mapping[str, object] | None = None,
) -> None:
    """Append an audit entry in the acting transaction.

    ``detail`` is read by people: no secrets, no bodies.
    """
    params = {"actor": actor, "action": action, "subject": subject, "detail": dict(detail or {})}
    await session.exec(_APPEND, params)


async def list_page(session: Session, *, cursor: int | None = None, limit: int = 50) -> Page[AuditRecord]:
    """List audit entries, newest first."""
    statement = select(_ENTRY).order_by(col(AuditEntry.seq).desc()).limit(limit + 1)
    if cursor is not None:
        statement = statement.where(col(AuditEntry.seq) < cursor)
    items = await session.exec(statement)
    return Page(items[:limit], str(items[limit - 1].seq) if len(items) > limit else None)
