"""What PostgreSQL derives from a row is what the rules say, over every combination of the axes.

The generated columns are a second wording of ``plan``, ``limits``, ``status`` and ``ttl``, made so that an
index can answer. Here both wordings meet on the same rows.
"""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import product
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import insert
from sqlalchemy import select as select_columns
from sqlmodel import col, select

from codehub.domain import ttl
from codehub.domain.errors import ErrorInfo, Reason
from codehub.domain.generations import ChosenArchive
from codehub.domain.limits import holds_place
from codehub.domain.plan import Claim, Crashed, Halt, Mark, SwitchArchive, plan
from codehub.domain.policy import ErrorPolicy
from codehub.domain.snapshots import WantedSnapshot
from codehub.domain.states import (
    STORAGE_OPERATIONS,
    DesiredState,
    HealthStatus,
    ObservedStatus,
    Operation,
)
from codehub.domain.status import status_of
from codehub.kit.ids import uuid7
from codehub.store.db import statements
from codehub.store.db.connections import one_connection_engine
from codehub.store.db.session import Session
from codehub.store.schema.tables import Workspace
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces.records import VIEW
from tests.integration.store.factory import make_user

HOMES: tuple[dict[str, Any] | None, ...] = (
    None,
    {"volume": True},
    {"volume": False, "restore_marker": "key"},
    {"volume": True, "restore_marker": "key"},
    {"volume": True, "restore_marker": "old"},
)


def every_row(owner_id: UUID, now: Any) -> Iterator[dict[str, Any]]:
    info = ErrorInfo(Reason.MISMATCH, "no", True, Operation.NONE, 0, now, {})
    errors = (None, {**info.as_json(), "is_terminal": False}, info.as_json())
    for desired, observed, health, operation, deleted_at, error, key, home, chosen, wanted in product(
        DesiredState,
        ObservedStatus,
        HealthStatus,
        (Operation.NONE, Operation.STARTING, Operation.STOPPING, Operation.ARCHIVING, Operation.DELETING),
        (None, now),
        errors,
        (None, "key"),
        HOMES,
        (None, ChosenArchive("key", now).as_json()),
        (None, WantedSnapshot(UUID(int=1), "kept", now).as_json()),
    ):
        workspace_id = uuid7()
        yield {
            "id": workspace_id,
            "owner_id": owner_id,
            "name": workspace_id.hex,
            "image_ref": "image",
            "desired_state": desired,
            "observed_status": observed,
            "health_status": health,
            "operation": operation,
            "op_id": uuid4(),
            "op_started_at": now,
            "observed_at": now,
            "deleted_at": deleted_at,
            "error_info": error,
            "archive_key": key,
            "home_ctx": home,
            "restore_from": chosen,
            "snapshot_as": wanted,
            "last_access_at": now - timedelta(days=2),
        }


async def insert_all(database_url: str, rows: Sequence[dict[str, Any]]) -> None:
    engine = one_connection_engine(database_url, application_name="test")
    async with engine.begin() as connection:
        for start in range(0, len(rows), 1000):
            await connection.execute(insert(w), rows[start : start + 1000])
    await engine.dispose()


async def test_the_database_and_the_rules_agree_on_every_row(session: Session, database_url: str) -> None:
    now = await statements.now(session)
    rows = list(every_row(await make_user(session), now))
    await session.commit()
    await insert_all(database_url, rows)
    result = await session.exec(
        select_columns(
            VIEW,
            col(Workspace.due_lane),
            col(Workspace.holds_place),
            col(Workspace.status),
            col(Workspace.archive_due_at),
        )
    )
    seen = 0
    for ws, due_lane, holds_a_place, status, archive_due_at in result:
        seen += 1
        assert status == status_of(ws).value, ws
        assert holds_a_place is holds_place(ws), ws
        if ws.in_error and ws.health_status is HealthStatus.OK:
            # The Observer turns health within a tick; the database does not wait for it.
            assert archive_due_at is None, ws
        else:
            assert (archive_due_at is not None) is ttl.archives_now(ws, now=now), ws
        if ws.operation is Operation.NONE:
            assert due_lane == lane_by_the_plan(ws, now), ws
        else:
            assert due_lane is None, ws
    assert seen == len(rows)


def lane_by_the_plan(ws: Any, now: Any) -> str | None:
    match plan(ws, now=now, policy=ErrorPolicy()):
        case Claim(operation=operation):
            return "storage" if operation in STORAGE_OPERATIONS else "control"
        case Halt() | Mark() | SwitchArchive() | Crashed():
            return "control"
        case _:
            return None


async def test_only_rows_at_rest_are_not_watched(session: Session, database_url: str) -> None:
    """At rest: nothing was there, nothing is under way, nothing is wrong, nobody has deleted it."""
    now = await statements.now(session)
    rows = list(every_row(await make_user(session), now))
    unwanted = [row for row in rows if row["desired_state"] is DesiredState.PENDING]  # no intent is watched
    await session.commit()
    await insert_all(database_url, unwanted)
    result = await session.exec(select(VIEW, col(Workspace.watched)))
    for ws, watched in result:
        at_rest = (
            ws.observed_status is ObservedStatus.PENDING
            and ws.operation is Operation.NONE
            and ws.health_status is HealthStatus.OK
            and ws.error_info is None
            and ws.deleted_at is None
        )
        gone = ws.observed_status is ObservedStatus.DELETED and ws.operation is Operation.NONE
        assert watched is not (at_rest or gone), ws
