"""Record who went into a workspace, or took its files: commands, files, SSH, archives."""

from uuid import UUID

from codehub.services.actors import Actor
from codehub.store.accounts import audit
from codehub.store.db.session import Session


async def record_use(
    session: Session, action: str, workspace_id: UUID, *, actor: Actor, **detail: object
) -> None:
    """Append an audit entry, before it happens. Of a command only the program: arguments may be secrets.

    Not recorded is what people read in their own workspaces: that says nothing to anybody.
    """
    await audit.append(
        session, actor=actor.label, action=f"workspace.{action}", subject=str(workspace_id), detail=detail
    )
