"""Returning to an earlier archive by the API: who may, what is refused, and what is told."""

import json
from typing import Any
from uuid import UUID

import httpx
import pytest

from codehub.archives.keys import ArchivePath
from codehub.store import control
from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.integration.api.test_roles import WHO, everybody, execute, mine
from tests.support.archive_forgery import plant


def url(workspace_id: str) -> str:
    return f"/api/v1/workspaces/{workspace_id}/restore"


def body(archive: ArchivePath, **more: Any) -> dict[str, Any]:
    return {"op_id": str(archive.op_id), "attempt": archive.attempt, **more}


def an_archive(environment: ApiEnvironment, workspace_id: str, content: bytes = b"files") -> ArchivePath:
    return plant(environment.archives, UUID(workspace_id), content)


async def archived_at(
    environment: ApiEnvironment, workspace_id: str, archive: ArchivePath, **more: str
) -> None:
    """As the Reconciler leaves it: archived, and this is the home."""
    await execute(
        environment,
        "UPDATE workspaces SET archive_key = :key, home_ctx = cast(:home as jsonb), "
        "error_info = cast(:info as jsonb), health_status = cast(:health as health_status) "
        "WHERE id = cast(:id as uuid)",
        key=archive.key,
        home=json.dumps({"archived_key": archive.key}),
        info=more.get("info", "null") if "info" in more else None,
        health="ERROR" if "info" in more else "OK",
        id=workspace_id,
    )


def data_lost(archive: ArchivePath, *, operation: str = "RESTORING", reason: str = "DataLost") -> str:
    return json.dumps(
        {
            "reason": reason,
            "message": "The archive is damaged.",
            "is_terminal": True,
            "operation": operation,
            "error_count": 1,
            "context": {"code": "CHECKSUM_MISMATCH", "archive_key": archive.key},
            "occurred_at": "2026-01-03T00:00:00+00:00",
        }
    )


async def test_its_owner_and_administrators_may(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    for who, status in zip(WHO, mine(202), strict=True):
        workspace = await create_workspace(people["token"], f"for {who}")
        archive = an_archive(environment, workspace["id"])
        answer = await people[who].post(url(workspace["id"]), json=body(archive))
        assert answer.status_code == status, (who, answer.text)
        after = (await people["admin"].get(f"/api/v1/workspaces/{workspace['id']}")).json()
        assert (after["restore_from"] is not None) == (status == 202)
        answer = await people[who].delete(url(workspace["id"]))
        assert answer.status_code == status, (who, answer.text)


async def test_a_choice_is_told_listed_and_cancelled(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    older, newer = (an_archive(environment, workspace["id"], content) for content in (b"1", b"2"))
    await archived_at(environment, workspace["id"], newer)
    answer = await ann.post(url(workspace["id"]), json=body(older, start=True))
    assert answer.status_code == 202, answer.text
    assert answer.json()["restore_from"] == {"archive_key": older.key, "created_at": "2026-01-01T00:00:00Z"}
    assert answer.json()["desired_state"] == "RUNNING"
    listed = {each["key"]: each for each in await archives(ann, workspace["id"])}
    assert (listed[older.key]["chosen"], listed[older.key]["current"]) == (True, False)
    assert (listed[newer.key]["chosen"], listed[newer.key]["current"]) == (False, True)
    cancelled = await ann.delete(url(workspace["id"]))
    assert (cancelled.status_code, cancelled.json()["restore_from"]) == (202, None)
    again = await ann.delete(url(workspace["id"]))
    assert again.json()["version"] == cancelled.json()["version"]
    history = (await ann.get(f"/api/v1/workspaces/{workspace['id']}/history")).json()["items"]
    assert [each["cause_code"] for each in history if "restore_from" in each["changes"]] == [
        "return_cancelled",
        "asked_to_return",
    ]
    admin = await environment.sign_in("admin")
    actions = [each["action"] for each in (await admin.get("/api/v1/admin/audit")).json()["items"]]
    assert {"workspace.restore", "workspace.restore.cancel"} <= set(actions)


async def archives(client: httpx.AsyncClient, workspace_id: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await client.get(f"/api/v1/workspaces/{workspace_id}/archives")).json()[
        "items"
    ]
    return items


async def test_from_a_damaged_archive_its_owner_returns_to_an_older_one(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    older, damaged = (an_archive(environment, workspace["id"], content) for content in (b"1", b"2"))
    await archived_at(environment, workspace["id"], damaged, info=data_lost(damaged))
    shown = {each["key"]: each["damaged"] for each in await archives(ann, workspace["id"])}
    assert shown == {older.key: False, damaged.key: True}
    answer = await ann.post(url(workspace["id"]), json=body(older))
    assert answer.status_code == 202, answer.text
    assert answer.json()["error_info"] is None
    shown = {each["key"]: each["damaged"] for each in await archives(ann, workspace["id"])}
    assert shown == {older.key: False, damaged.key: True}  # it stays in the list, named as damaged


@pytest.mark.parametrize("case", ["current", "expiring", "vanished", "another in its place"])
async def test_what_is_refused_changes_nothing(environment: ApiEnvironment, case: str) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    chosen, current = (an_archive(environment, workspace["id"], content) for content in (b"1", b"2"))
    await archived_at(environment, workspace["id"], current)
    match case:
        case "current":
            chosen = current
        case "expiring":
            async with environment.sessions.begin() as session:
                await control.replace_seen(session, [chosen.key])
            assert [each["expiring"] for each in await archives(ann, workspace["id"])].count(True) == 1
        case "vanished":
            lost = data_lost(current, operation="NONE", reason="Mismatch")
            await archived_at(environment, workspace["id"], current, info=lost)
        case _:
            known = {"generations": [{"archive_key": chosen.key, "sha256": "another"}]}
            await execute(
                environment,
                "UPDATE workspaces SET home_ctx = cast(:home as jsonb) WHERE id = cast(:id as uuid)",
                home=json.dumps(known),
                id=workspace["id"],
            )
    answer = await ann.post(url(workspace["id"]), json=body(chosen))
    assert (answer.status_code, answer.json()["code"]) == (409, "archive_not_restorable")
    after = (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()
    assert after["restore_from"] is None


async def test_an_archive_of_another_workspace_is_not_there(environment: ApiEnvironment) -> None:
    ann, bob = await environment.sign_in("ann"), await environment.sign_in("bob")
    mine_, theirs = await create_workspace(ann), await create_workspace(bob)
    archive = an_archive(environment, theirs["id"])
    answer = await ann.post(url(mine_["id"]), json=body(archive))
    assert answer.status_code == 404
    assert (await ann.post(url(theirs["id"]), json=body(archive))).status_code == 404
    odd = await ann.post(url(mine_["id"]), json={"op_id": str(archive.op_id), "attempt": "../x"})
    assert odd.status_code == 422
