"""Lock several workspaces of one transaction in one order: the lowest id first.

Two transactions that lock the same rows in different orders deadlock, until PostgreSQL ends one of them a
second later. The Observer writes in bulk and the Reconciler row by row, at the same time and on the same
workspaces; so each locks (or writes) in the order of ids. A transaction that writes in several statements
locks all of its rows before the first one.
"""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import ARRAY, Uuid, any_, bindparam
from sqlmodel import col, select

from codehub.store.db.session import Session
from codehub.store.schema.tables import Workspace

_LOCK = (
    select(col(Workspace.id))
    .where(col(Workspace.id) == any_(bindparam("ids", type_=ARRAY(Uuid()))))
    .order_by(col(Workspace.id))
    .with_for_update(key_share=True)
)


async def lock_in_order(session: Session, ids: Collection[UUID]) -> None:
    """Lock these rows, by id, until the transaction ends.

    Readers and foreign keys are not blocked. The lock ends with the transaction, also when the process dies.
    A single row is left to the statement that writes it: there is no order to keep.
    """
    if len(ids) > 1:
        await session.exec(_LOCK, {"ids": list(ids)})
