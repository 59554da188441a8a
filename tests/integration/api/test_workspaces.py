"""Requests, limits and lists."""

import asyncio
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

import httpx
import pytest
from pydantic import TypeAdapter
from sqlalchemy import Executable, Text, Uuid, text

from codehub.api.schemas.workspaces import Workspace
from codehub.kit.ids import uuid7
from codehub.signals.activity import ActivityKind
from codehub.store.db.session import Session
from codehub.store.db.typed_text import typed_text
from tests.integration.api.environment import ApiEnvironment, create_workspace, user_id
from tests.support.redis import RedisServer

WORKSPACES = "/api/v1/workspaces"


async def intent(client: httpx.AsyncClient, workspace: dict[str, Any], what: str) -> httpx.Response:
    return await client.post(f"{WORKSPACES}/{workspace['id']}/{what}")


async def execute(environment: ApiEnvironment, statement: str, **values: Any) -> None:
    async with environment.sessions.begin() as session:
        await session.exec(text(statement), values)


async def test_an_answer_is_what_the_description_says(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    made = await create_workspace(ann, "thesis", description="draft", memo="m", standby_ttl_seconds=60)
    assert made.keys() == Workspace.__annotations__.keys()
    TypeAdapter(Workspace).validate_python(made)
    assert (made["status"], made["progress"], made["version"]) == ("new", None, 1)
    assert made["url"] == f"http://codehub.test/w/{made['id']}/"
    assert made["image_ref"] == "fake"
    assert (made["standby_ttl_seconds"], made["archive_ttl_seconds"]) == (60, 86400)
    assert made["activity"] == {
        "connections": 0,
        "last_seen_at": None,
        "kind": None,
        "awake": None,
        "next": None,
        "queue": None,
    }


async def test_a_workspace_says_whether_it_holds_a_place(environment: ApiEnvironment) -> None:
    """By the rule the limit is counted with, so that no client needs to know it."""
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    assert workspace["holds_place"] is False
    assert (await intent(ann, workspace, "start")).json()["holds_place"] is True
    assert (await intent(ann, workspace, "stop")).json()["holds_place"] is False
    await execute(
        environment,
        "UPDATE workspaces SET observed_status = 'RUNNING', health_status = 'ERROR', version = version + 1",
    )
    (seen,) = (await ann.get(WORKSPACES)).json()["items"]
    assert (seen["desired_state"], seen["status"], seen["holds_place"]) == ("STANDBY", "error", True)
    assert (await ann.get("/api/v1/limits")).json()["user"]["used"] == 1


async def test_with_a_base_domain_each_workspace_has_an_origin_of_its_own(
    environment: ApiEnvironment,
) -> None:
    ann = await environment.sign_in("ann")
    made = await create_workspace(ann)
    app = environment.with_settings(base_url="http://localhost:8000", base_domain="localhost")
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://codehub.test", cookies=ann.cookies
    ) as client:
        answer = await client.get(f"{WORKSPACES}/{made['id']}")
    assert answer.json()["url"] == f"http://{made['id']}.localhost:8000/"


async def test_intents_are_taken_and_repeating_one_changes_nothing(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    for what, desired in (("start", "RUNNING"), ("stop", "STANDBY"), ("archive", "PENDING")):
        first, second = await intent(ann, workspace, what), await intent(ann, workspace, what)
        assert (first.status_code, second.status_code) == (202, 202)
        assert first.json()["desired_state"] == second.json()["desired_state"] == desired
        assert first.json()["version"] == second.json()["version"]
    refused = await intent(ann, workspace, "stop")
    assert (refused.status_code, refused.json()["code"]) == (409, "archived")


async def test_a_deleted_workspace_takes_no_intents_and_then_is_gone(environment: ApiEnvironment) -> None:
    ann, admin = await environment.sign_in("ann"), await environment.sign_in("admin")
    workspace = await create_workspace(ann)
    path = f"{WORKSPACES}/{workspace['id']}"
    assert (await ann.delete(path)).json()["status"] == "deleting"
    assert (await ann.delete(path)).status_code == 202
    for what in ("start", "stop", "archive"):
        answer = await intent(ann, workspace, what)
        assert (answer.status_code, answer.json()["code"]) == (409, "deleted")
    assert (await ann.patch(path, json={"memo": "late"})).json()["code"] == "deleted"
    await create_workspace(ann)  # its name is free again
    await execute(
        environment,
        "UPDATE workspaces SET observed_status = 'DELETED' WHERE id = :id",
        id=UUID(workspace["id"]),
    )
    assert (await ann.get(path)).status_code == 404
    assert (await ann.get(f"{path}/history")).status_code == 404
    assert (await admin.get(path)).json()["status"] == "deleted"
    listed = (await admin.get(f"{WORKSPACES}?owner=all&status=deleted")).json()["items"]
    assert [each["id"] for each in listed] == [workspace["id"]]
    assert (await ann.get(f"{WORKSPACES}?status=deleted")).status_code == 403


async def test_at_the_limit_one_is_told_what_runs(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    running = [await create_workspace(ann, f"ws {number}", start=True) for number in range(2)]
    refused = await ann.post(WORKSPACES, json={"name": "third", "start": True})
    assert refused.status_code == 429
    problem = refused.json()
    assert (problem["code"], problem["used"], problem["allowed"]) == ("limit_user", 2, 2)
    assert {each["id"] for each in problem["running"]} == {each["id"] for each in running}
    assert {each["name"] for each in problem["running"]} == {"ws 0", "ws 1"}
    assert all(each["status"] for each in problem["running"])
    assert len((await ann.get(WORKSPACES)).json()["items"]) == 2, "nothing was made"
    assert (await ann.get("/api/v1/limits")).json() == {
        "user": {"used": 2, "allowed": 2},
        "global": {"used": 2, "allowed": 100},
        "attempts": 4,
    }
    assert (await intent(ann, running[0], "start")).status_code == 202, "already wanted: no new place"


async def test_two_hundred_simultaneous_starts_take_exactly_the_two_places(
    environment: ApiEnvironment,
) -> None:
    ann = await environment.sign_in("ann")
    tokened = await environment.token_client(ann)
    owner_id = await user_id(ann)
    ids = [uuid7() for _ in range(200)]
    await execute(
        environment,
        "INSERT INTO workspaces (id, owner_id, name, image_ref) "
        "SELECT id, :owner, 'ws ' || id, 'fake' FROM unnest(cast(:ids as uuid[])) AS id",
        owner=owner_id,
        ids=ids,
    )
    answers = await asyncio.gather(*(tokened.post(f"{WORKSPACES}/{each}/start") for each in ids))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [202] * 2 + [429] * 198
    assert (await ann.get("/api/v1/limits")).json()["user"]["used"] == 2


async def test_keep_awake_is_a_promise_that_can_be_taken_back(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    path = f"{WORKSPACES}/{workspace['id']}/keep-awake"
    assert (await ann.post(path, json={"hours": 4})).json()["awake_until"] is not None
    assert (await ann.post(path, json={"hours": 0})).json()["awake_until"] is None
    kept = (await ann.post(path)).json()  # as the tab's button does
    until, since = (datetime.fromisoformat(kept[name]) for name in ("awake_until", "last_access_at"))
    assert timedelta(minutes=59) < until - since < timedelta(minutes=61)
    for hours in (-1, 24.5, "4", None):
        answer = await ann.post(path, json={"hours": hours})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["field"] == "hours"


async def test_recover_lifts_an_error_and_without_one_changes_nothing(environment: ApiEnvironment) -> None:
    ann, admin = await environment.sign_in("ann"), await environment.sign_in("admin")
    workspace = await create_workspace(ann)
    before = (await intent(admin, workspace, "recover")).json()
    assert before["version"] == workspace["version"]
    info = (
        '{"reason": "DataLost", "message": "checksum mismatch", "is_terminal": true, "context": {}, '
        '"operation": "RESTORING", "error_count": 1, "occurred_at": "2025-01-01T00:00:00+00:00"}'
    )
    await execute(environment, "UPDATE workspaces SET error_info = cast(:info as jsonb)", info=info)
    shown = (await ann.get(f"{WORKSPACES}/{workspace['id']}")).json()
    assert (shown["status"], shown["error_info"]["reason"]) == ("error", "DataLost")
    assert (await intent(admin, workspace, "recover")).json()["error_info"] is None


async def test_activity_says_who_is_there_and_what_happens_next(
    environment: ApiEnvironment, redis_server: RedisServer
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann, start=True)
    await execute(environment, "UPDATE workspaces SET observed_status = 'RUNNING'")
    workspace_id = UUID(workspace["id"])
    await environment.activity.touch(workspace_id, 300, ActivityKind.HTTP)
    environment.app.state.codehub.activity._known.clear()
    activity = (await ann.get(f"{WORKSPACES}/{workspace_id}")).json()["activity"]
    assert (activity["connections"], activity["kind"]) == (0, "http")
    assert (activity["next"]["to"], activity["next"]["why"]) == ("STANDBY", "idle for 5 min")
    await environment.activity.take(workspace_id, "lease", ttl_seconds=300)
    environment.app.state.codehub.activity._known.clear()
    activity = (await ann.get(f"{WORKSPACES}/{workspace_id}")).json()["activity"]
    assert (activity["connections"], activity["next"]) == (1, None)
    redis_server.kill()
    environment.app.state.codehub.activity._known.clear()
    answer = await ann.get(f"{WORKSPACES}/{workspace_id}")
    assert answer.status_code == 200
    assert answer.json()["activity"] == {
        "connections": None,
        "last_seen_at": None,
        "kind": None,
        "awake": {"because": "unknown", "since": None, "work": None},
        "next": None,
        "queue": None,
    }


async def test_edits_change_what_they_name(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    first, second = await create_workspace(ann, "first", memo="keep"), await create_workspace(ann, "second")
    path = f"{WORKSPACES}/{first['id']}"
    changed = (await ann.patch(path, json={"name": "renamed", "archive_ttl_seconds": 0})).json()
    assert (changed["name"], changed["memo"], changed["archive_ttl_seconds"]) == ("renamed", "keep", 0)
    taken = await ann.patch(path, json={"name": second["name"]})
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")
    assert (await ann.patch(path, json={"image_ref": "other"})).status_code == 422
    assert (await ann.patch(path, json={})).json()["version"] == changed["version"]
    history = (await ann.get(f"{path}/history")).json()["items"]
    assert history[0]["changes"]["name"] == ["first", "renamed"]
    assert history[0]["actor"] == "user:ann"


@pytest.fixture
def rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows each SELECT on workspaces returned, from here on."""
    counts: list[int] = []
    exec_ = Session.exec

    async def counted(session: Session, statement: Executable, params: Any = None) -> Any:
        rows: Any = await exec_(session, cast(Any, statement), params)
        if str(statement).startswith("SELECT workspaces"):
            counts.append(len(rows))
        return rows

    monkeypatch.setattr(Session, "exec", counted)
    return counts


async def test_ten_thousand_workspaces_are_paged_at_a_constant_price(
    environment: ApiEnvironment, rows_read: list[int]
) -> None:
    ann = await environment.sign_in("ann")
    ids = sorted(uuid7() for _ in range(10_000))
    await execute(
        environment,
        "INSERT INTO workspaces (id, owner_id, name, image_ref) "
        "SELECT id, :owner, 'ws ' || id, 'fake' FROM unnest(cast(:ids as uuid[])) AS id",
        owner=await user_id(ann),
        ids=ids,
    )
    await execute(environment, "ANALYZE workspaces")
    rows_read.clear()
    seen: list[str] = []
    cursor: str | None = None
    for _ in range(10_000 // 200):
        query = f"?limit=200&cursor={cursor}" if cursor else "?limit=200"
        page = (await ann.get(f"{WORKSPACES}{query}")).json()
        seen += [each["id"] for each in page["items"]]
        cursor = page["next_cursor"]
    assert cursor is None
    assert seen == [str(each) for each in reversed(ids)], "each once, newest first"
    assert len(rows_read) == 50, "one query a page"
    assert max(rows_read) <= 201
    deep = await _explain(environment, ids[300])
    assert "Index Scan" in deep, deep
    assert "Sort" not in deep
    assert "Rows Removed by Filter" not in deep


async def _explain(environment: ApiEnvironment, cursor: UUID) -> str:
    """The plan of a page far down the list."""
    async with environment.sessions() as session:
        owner = (await session.exec(typed_text("SELECT owner_id FROM workspaces LIMIT 1", Uuid()))).one()
        rows = await session.exec(
            typed_text(
                "EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) SELECT * FROM workspaces "
                "WHERE observed_status <> 'DELETED' AND owner_id = :owner AND id < :cursor "
                "ORDER BY id DESC LIMIT 51",
                Text(),
            ),
            {"owner": owner, "cursor": cursor},
        )
        return "\n".join(rows)


async def test_filters_by_status_and_text(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    await create_workspace(ann, "alpha 100%")
    await create_workspace(ann, "beta", description="about Alpha")
    await create_workspace(ann, "gamma")
    await execute(environment, "UPDATE workspaces SET observed_status = 'STANDBY' WHERE name = 'gamma'")

    async def names(query: str) -> set[str]:
        return {each["name"] for each in (await ann.get(f"{WORKSPACES}?{query}")).json()["items"]}

    assert await names("q=ALPHA") == {"alpha 100%", "beta"}
    assert await names("q=100%25") == {"alpha 100%"}
    assert await names("q=%25") == {"alpha 100%"}, "a percent sign is a percent sign"
    assert await names("status=standby") == {"gamma"}
    assert await names("status=new&q=alpha") == {"alpha 100%", "beta"}
