"""Share ports of a workspace, label them, and take it back.

Each use case locks the workspace's row first, so the number of shares is exact and two changes of one port come one
after the other. A process that dies in here leaves nothing: PostgreSQL rolls back. One that dies after the commit and
before it tells the proxies: their cached answers are 2 s old at most, and what is open is looked at every 15 s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from codehub.domain.errors import CodeHubError
from codehub.domain.port_shares import (
    DEFAULT_LINK_HOURS,
    MAX_SHARES,
    PortShare,
    ShareLevel,
    SharePolicy,
    level_now,
)
from codehub.services import workspaces
from codehub.services.actors import Actor
from codehub.services.errors import NotFound, WorkspaceDeleted
from codehub.store.accounts import audit
from codehub.store.db.session import Session
from codehub.store.workspaces import port_shares, queries
from codehub.store.workspaces.records import WorkspaceRecord


class ShareRefused(CodeHubError):
    """The installation does not allow this share. Says why."""

    code = "share_refused"


class TooManyShares(CodeHubError):
    """The workspace has as many labelled and shared ports as one may have."""

    code = "too_many_shares"

    def __init__(self) -> None:
        super().__init__(
            f"{MAX_SHARES} ports have a label or a share, which is as many as may have. Remove one first."
        )


async def list_shares(session: Session, workspace_id: UUID, *, actor: Actor) -> Sequence[PortShare]:
    """List labels and shares, whether the workspace runs or not."""
    await workspaces.get(session, workspace_id, actor=actor)
    return await port_shares.list_of(session, workspace_id)


async def share(
    session: Session,
    workspace_id: UUID,
    wanted: PortShare,
    *,
    lasts: timedelta | None,
    new_link: bool = False,
    policy: SharePolicy,
    actor: Actor,
    now: datetime,
) -> tuple[WorkspaceRecord, PortShare]:
    """Set the label and the share of a port. Idempotent; what was there before is replaced.

    ``lasts`` from ``now`` on; a public link always ends. A public port keeps its link, unless ``new_link``: then the
    earlier link and everybody who came by it are out. Raises ``ShareRefused``, ``TooManyShares``.
    """
    record = await _locked(session, workspace_id, actor)
    require_allowed(wanted.level, policy)
    before = {each.port: each for each in await port_shares.list_of(session, workspace_id)}
    if wanted.port not in before and len(before) >= MAX_SHARES:
        raise TooManyShares
    link_id = None
    if wanted.level is ShareLevel.PUBLIC:
        lasts = _link_lasts(lasts, policy)
        known = before.get(wanted.port)
        # A link that ended stays dead: who had it is not let in by a later one.
        alive = known is not None and level_now(known, policy, now=now) is ShareLevel.PUBLIC
        link_id = known.link_id if known is not None and alive and not new_link else uuid4()
    made = replace(
        wanted,
        expires_at=now + lasts if lasts is not None and wanted.level is not ShareLevel.PRIVATE else None,
        link_id=link_id,
    )
    await port_shares.put(session, workspace_id, made)
    detail = {
        "port": made.port,
        "level": made.level.value,
        "label": made.label,
        "expires_at": made.expires_at.isoformat() if made.expires_at else None,
    }
    await _audit(session, actor, "workspace.port.share", workspace_id, detail)
    return record, made


async def unshare(session: Session, workspace_id: UUID, port: int, *, actor: Actor) -> WorkspaceRecord:
    """Remove the label and the share of a port. Raises ``NotFound`` if it has neither."""
    record = await _locked(session, workspace_id, actor)
    if not await port_shares.remove(session, workspace_id, port):
        raise NotFound("share")
    await _audit(session, actor, "workspace.port.unshare", workspace_id, {"port": port})
    return record


def require_allowed(level: ShareLevel, policy: SharePolicy) -> None:
    """Raise ``ShareRefused``, with the reason and what to do, for a level above what is possible."""
    if level is ShareLevel.PRIVATE:
        return
    if not policy.has_origins:
        raise ShareRefused(
            "Ports are shared at origins of their own only, and this installation has none. "
            "An administrator sets CODEHUB_BASE_DOMAIN."
        )
    if level.rank > policy.ceiling.rank:
        allowed = (
            "no sharing" if policy.ceiling is ShareLevel.PRIVATE else "sharing with signed-in people only"
        )
        raise ShareRefused(
            f"This installation allows {allowed}. An administrator can raise CODEHUB_PORT_SHARE_CEILING."
        )


def _link_lasts(wanted: timedelta | None, policy: SharePolicy) -> timedelta:
    if wanted is not None and wanted > policy.max_link:
        hours = int(policy.max_link / timedelta(hours=1))
        raise ShareRefused(f"A public link lasts {hours} hours at most (CODEHUB_PORT_SHARE_MAX_HOURS).")
    return wanted or min(timedelta(hours=DEFAULT_LINK_HOURS), policy.max_link)


async def _locked(session: Session, workspace_id: UUID, actor: Actor) -> WorkspaceRecord:
    record = workspaces.visible(await queries.find_locked(session, workspace_id), actor)
    if record.view.deleted_at is not None:
        raise WorkspaceDeleted(workspace_id)
    return record


async def _audit(
    session: Session, actor: Actor, action: str, workspace_id: UUID, detail: Mapping[str, object]
) -> None:
    await audit.append(session, actor=actor.label, action=action, subject=str(workspace_id), detail=detail)
