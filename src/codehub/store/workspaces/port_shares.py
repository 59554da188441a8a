"""Labels and shares of ports. Rules are in ``domain/port_shares``; written by ``services/port_shares`` alone."""

from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, any_, bindparam, delete
from sqlalchemy.dialects.postgresql import insert
from sqlmodel import col, select

from codehub.domain.port_shares import PortShare, ShareLevel
from codehub.store.db.records import record
from codehub.store.db.session import Session
from codehub.store.db.statements import clock
from codehub.store.schema import tables
from codehub.store.schema.tables import User, Workspace
from codehub.store.schema.tables import port_shares as t

_SHARE = record(PortShare, tables.PortShare)
_OF_WORKSPACE = (
    select(_SHARE)
    .where(col(tables.PortShare.workspace_id) == bindparam("workspace_id"))
    .order_by(col(tables.PortShare.port))
)
_OPEN = (
    select(col(tables.PortShare.workspace_id), _SHARE)
    .join_from(tables.PortShare, Workspace, col(Workspace.id) == col(tables.PortShare.workspace_id))
    .join(User, col(User.id) == col(Workspace.owner_id))
    .where(
        col(tables.PortShare.workspace_id) == any_(bindparam("ids", type_=ARRAY(Uuid()))),
        col(tables.PortShare.level) != ShareLevel.PRIVATE,
        col(User.disabled_at).is_(None),
    )
)


async def list_of(session: Session, workspace_id: UUID) -> Sequence[PortShare]:
    """List a workspace's ports that have a label or a share, by number."""
    return list(await session.exec(_OF_WORKSPACE, {"workspace_id": workspace_id}))


async def list_open(session: Session, ids: Collection[UUID]) -> Sequence[tuple[UUID, PortShare]]:
    """List the shares of these workspaces that let somebody in; none of owners who are disabled."""
    return list(await session.exec(_OPEN, {"ids": list(ids)}))


async def put(session: Session, workspace_id: UUID, share: PortShare) -> None:
    """Write a port's label and share, in place of earlier ones."""
    values = {
        "label": share.label,
        "level": share.level,
        "expires_at": share.expires_at,
        "link_id": share.link_id,
        "updated_at": clock(),
    }
    statement = insert(t).values(workspace_id=workspace_id, port=share.port, **values)
    await session.exec(
        statement.on_conflict_do_update(index_elements=[t.c.workspace_id, t.c.port], set_=values)
    )


async def remove(session: Session, workspace_id: UUID, port: int) -> bool:
    """Remove a port's label and share. False: it had none."""
    statement = (
        delete(t)
        .where(col(tables.PortShare.workspace_id) == workspace_id, col(tables.PortShare.port) == port)
        .returning(col(tables.PortShare.port))
    )
    return (await session.exec(statement)).first() is not None
