"""Rows for the tests of the store, in whatever state a test names."""

import asyncio
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import Integer, insert, text

from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.states import Operation
from codehub.domain.workspace import WorkspaceView
from codehub.kit.ids import uuid7
from codehub.store.accounts import users
from codehub.store.db import statements
from codehub.store.db.session import Session
from codehub.store.db.typed_text import typed_text
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces import queries


async def make_user(session: Session, username: str | None = None) -> UUID:
    user_id = uuid7()
    name = username or f"user-{user_id.hex[-12:]}"
    await users.create(session, user_id=user_id, username=name, password_hash="x")
    return user_id


async def make_workspace(session: Session, owner_id: UUID | None = None, **columns: Any) -> UUID:
    """A committed workspace. An operation in flight gets what a claim would give it, a home its mark."""
    workspace_id = columns.pop("id", None) or uuid7()
    owner = owner_id or await make_user(session)
    now = await statements.now(session)
    if columns.get("operation", Operation.NONE) != Operation.NONE:
        columns = {"op_id": uuid4(), "op_seq": 1, "op_started_at": now, **columns}
    if columns.get("observed_status") in ("STANDBY", "RUNNING"):
        columns = {"home_ctx": {"volume": True}, **columns}
    row = {"name": f"ws-{workspace_id.hex[-12:]}", "image_ref": "image", "observed_at": now, **columns}
    await session.exec(insert(w).values(id=workspace_id, owner_id=owner, **row))
    await session.commit()
    return workspace_id


async def view(session: Session, workspace_id: UUID) -> WorkspaceView:
    found = await queries.find(session, workspace_id)
    assert found is not None
    return found.view


async def an_error(session: Session, *, terminal: bool = False, count: int = 1) -> ErrorInfo:
    return ErrorInfo(
        reason=Reason.ACTION_FAILED,
        message="it did not work",
        is_terminal=terminal,
        operation=Operation.STARTING,
        error_count=count,
        occurred_at=await statements.now(session),
        context={"exit_code": 1},
    )


async def until_somebody_waits_for_a_lock(session: Session, *, count: int = 1) -> None:
    """Or ``count`` do. ``session`` only looks on: whoever waits is another one."""
    waiting = typed_text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", Integer())
    async with asyncio.timeout(30):
        while (await session.exec(waiting)).one() < count:
            # Statistics are a snapshot per transaction; this one has to stay open.
            await session.exec(text("SELECT pg_stat_clear_snapshot()"))
            await asyncio.sleep(0.01)
