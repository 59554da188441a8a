"""The trigger tells exactly what people can see, once per change, and says who and why."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest
from sqlalchemy import update

from codehub.store.db.connections import coordinator_connector
from codehub.store.db.context import set_actor
from codehub.store.db.session import Session
from codehub.store.schema.tables import workspaces as w
from codehub.store.workspaces import events
from tests.integration.store.factory import make_workspace, view

THEN = datetime(2030, 1, 1, tzinfo=UTC)
ERROR = {
    "reason": "Timeout",
    "message": "too slow",
    "is_terminal": True,
    "operation": "NONE",
    "error_count": 0,
    "context": {"log": "x" * 9000},
    "occurred_at": THEN.isoformat(),
}
VISIBLE: dict[str, Any] = {
    "desired_state": "RUNNING",
    "observed_status": "STANDBY",
    "health_status": "ERROR",
    "operation": "NONE",
    "error_info": ERROR,
    "archive_key": "a/b/0/home.tar.zst",
    "deleted_at": THEN,
    "name": "another",
    "description": "a place",
    "memo": "m" * 9000,
    "tags": ["papers"],
    "pinned": True,
    "image_ref": "image:2",
    "standby_ttl_seconds": 301,
    "archive_ttl_seconds": 86401,
    "awake_until": THEN,
    "restore_from": {"archive_key": "key", "created_at": "2030-01-01T00:00:00+00:00"},
    "queued_at": THEN,
    "snapshot_as": {"id": str(UUID(int=1)), "name": "kept", "asked_at": "2030-01-01T00:00:00+00:00"},
    "snapshots": [
        {
            "id": str(UUID(int=1)),
            "name": "kept",
            "archive_key": "key",
            "created_at": "2030-01-01T00:00:00+00:00",
        }
    ],
}
HIDDEN: dict[str, Any] = {
    "copy_of": {"workspace_id": str(UUID(int=1)), "archive_key": "key"},
    "last_access_at": THEN,
    "active_until": THEN,
    "busy": {"what": "cpu", "since": "2030-01-01T00:00:00+00:00", "until": "2030-01-01T00:03:00+00:00"},
    "observed_at": THEN,
    "op_id": uuid4(),
    "op_seq": 7,
    "op_started_at": THEN,
    "op_acted_at": THEN,
    "error_count": 2,
    "last_retry_at": THEN,
    "previous_status": "RUNNING",
    "home_ctx": {"volume": True},
}


class Ear:
    """Hears what is notified. ``heard()`` ends with a notice of its own, so it never waits in vain."""

    def __init__(self, connection: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._connection = connection
        self._queue: asyncio.Queue[str] = asyncio.Queue()

    async def listen(self) -> None:
        await self._connection.add_listener(events.CHANNEL, self._hear)

    def _hear(self, *args: Any) -> None:
        self._queue.put_nowait(args[-1])

    async def heard(self) -> list[Any]:
        end = f"end-{uuid4()}"
        await self._connection.execute(f"SELECT pg_notify('{events.CHANNEL}', '{end}')")
        notices: list[Any] = []
        async with asyncio.timeout(20):
            while (payload := await self._queue.get()) != end:
                assert len(payload) < 1000
                notices.append(json.loads(payload))
        return notices


@pytest.fixture
async def ear(database_url: str) -> AsyncIterator[Ear]:
    connection = await coordinator_connector(database_url, application_name="test").connect()
    ear = Ear(connection)
    await ear.listen()
    yield ear
    await connection.close()


async def change(session: Session, workspace_id: UUID, **values: Any) -> None:
    await session.exec(update(w).where(w.c.id == workspace_id).values(**values))
    await session.commit()


async def test_the_two_tables_name_every_column_a_component_writes() -> None:
    columns = {column.name for column in w.columns if column.info["writer"] != "database"}
    assert VISIBLE.keys() | HIDDEN.keys() == columns - {"id", "owner_id"}


@pytest.mark.parametrize("column", VISIBLE)
async def test_a_visible_column_raises_the_version_and_is_told(
    column: str, session: Session, ear: Ear
) -> None:
    # Given a workspace for which the new value of this column is news
    start: dict[str, Any] = {"operation": "STARTING"} if column == "operation" else {}
    workspace_id = await make_workspace(session, **start)
    before = await view(session, workspace_id)
    await ear.heard()

    # When it changes
    await change(session, workspace_id, **{column: VISIBLE[column]})

    # Then the version grew by one, and the change was told once, naming the column
    assert (await view(session, workspace_id)).version == before.version + 1
    [notice] = await ear.heard()
    assert notice == {
        "id": str(workspace_id),
        "owner_id": str(before.owner_id),
        "version": before.version + 1,
        "changed": [column],
    }
    newest = (await events.list_page(session, workspace_id)).items[0]
    assert newest.version == before.version + 1
    assert list(newest.changes) == [column]
    assert len(json.dumps(newest.changes)) < 2000

    # And the same value again is no change
    await change(session, workspace_id, **{column: VISIBLE[column]})
    assert await ear.heard() == []
    assert (await view(session, workspace_id)).version == before.version + 1


@pytest.mark.parametrize("column", HIDDEN)
async def test_a_hidden_column_is_nobodys_news(column: str, session: Session, ear: Ear) -> None:
    workspace_id = await make_workspace(session)
    await ear.heard()
    await change(session, workspace_id, **{column: HIDDEN[column]})
    assert await ear.heard() == []
    assert (await view(session, workspace_id)).version == 1
    assert len((await events.list_page(session, workspace_id)).items) == 1  # its creation


async def test_a_new_workspace_is_told_with_version_one(session: Session, ear: Ear) -> None:
    workspace_id = await make_workspace(session, version=77)
    [notice] = await ear.heard()
    assert (notice["id"], notice["version"]) == (str(workspace_id), 1)
    assert {"desired_state", "operation", "name"} <= set(notice["changed"])
    [event] = (await events.list_page(session, workspace_id)).items
    assert event.changes["desired_state"] == (None, "PENDING")


async def test_nothing_is_told_of_what_was_rolled_back(session: Session, ear: Ear) -> None:
    workspace_id = await make_workspace(session)
    await ear.heard()
    await session.exec(update(w).where(w.c.id == workspace_id).values(memo="never"))
    await session.rollback()
    assert await ear.heard() == []


async def test_versions_strictly_grow_whatever_a_statement_says(session: Session, ear: Ear) -> None:
    workspace_id = await make_workspace(session)
    for memo in ("a", "b", "c"):
        await change(session, workspace_id, memo=memo, version=1)
    await change(session, workspace_id, version=900)
    assert (await view(session, workspace_id)).version == 4
    assert [notice["version"] for notice in await ear.heard()] == [1, 2, 3, 4]


async def test_the_timeline_says_who_and_why(session: Session) -> None:
    workspace_id = await make_workspace(session)
    await set_actor(session, "user:ann", "pressed start")
    await change(session, workspace_id, desired_state="RUNNING")
    # The settings ended with that transaction, on the same connection.
    await change(session, workspace_id, desired_state="STANDBY")

    last, intent, _creation = (await events.list_page(session, workspace_id)).items
    assert (intent.actor, intent.cause) == ("user:ann", "pressed start")
    assert intent.changes == {"desired_state": ("PENDING", "RUNNING")}
    assert (last.actor, last.cause) == (None, None)


async def test_the_timeline_keeps_the_reason_of_an_error_and_cuts_what_is_long(
    session: Session,
) -> None:
    workspace_id = await make_workspace(session)
    await change(session, workspace_id, error_info=ERROR, memo="m" * 9000, awake_until=THEN)
    changes = (await events.list_page(session, workspace_id)).items[0].changes
    error = changes["error_info"][1]
    assert isinstance(error, dict)
    assert error["reason"] == "Timeout"
    assert "context" not in error
    assert changes["memo"][1] == "m" * 200 + "…"
    assert changes["awake_until"][1] == "2030-01-01T00:00:00+00:00"


async def test_the_timeline_is_paged_newest_first(session: Session) -> None:
    workspace_id = await make_workspace(session)
    for memo in range(6):
        await change(session, workspace_id, memo=str(memo))
    versions: list[int] = []
    cursor: str | None = None
    while True:
        page = await events.list_page(session, workspace_id, cursor=int(cursor) if cursor else None, limit=3)
        versions += [event.version for event in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert versions == [7, 6, 5, 4, 3, 2, 1]
