"""Snapshots and copies by the API: who may, what is refused, and what is told."""

import pytest

from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.integration.api.test_restore import an_archive, archived_at, body
from tests.integration.api.test_roles import WHO, everybody, execute, mine


def url(workspace_id: str, rest: str) -> str:
    return f"/api/v1/workspaces/{workspace_id}/{rest}"


async def test_its_owner_and_administrators_may(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    for who, expected in zip(WHO, mine(202), strict=True):
        workspace = await create_workspace(people["token"], f"of ann for {who}")
        archive = an_archive(environment, workspace["id"])
        await archived_at(environment, workspace["id"], archive)
        named = {"name": "kept"}
        answer = await people[who].post(url(workspace["id"], "snapshots"), json=named)
        assert answer.status_code == expected, (who, answer.text)
        answer = await people[who].post(url(workspace["id"], "snapshots"), json=body(archive, **named))
        assert answer.status_code == expected, (who, answer.text)
        wanted = 201 if expected == 202 else expected
        copied = body(archive, name=f"copy for {who}")
        answer = await people[who].post(url(workspace["id"], "copies"), json=copied)
        assert answer.status_code == wanted, (who, answer.text)
        if wanted == 201:
            made = answer.json()
            assert (made["copy_of"], made["owner_id"]) == (workspace["id"], workspace["owner_id"])
            assert made["restore_from"]["archive_key"] == archive.key


async def test_a_snapshot_is_listed_renamed_and_deleted(environment: ApiEnvironment) -> None:
    ann = (await everybody(environment))["token"]
    workspace = await create_workspace(ann, "thesis")
    archive = an_archive(environment, workspace["id"])
    await archived_at(environment, workspace["id"], archive)
    await ann.post(url(workspace["id"], "snapshots"), json={"name": "before"})
    (listed,) = (await ann.get(url(workspace["id"], "archives"))).json()["items"]
    assert listed["snapshot"]["name"] == "before"
    one = url(workspace["id"], f"snapshots/{listed['snapshot']['id']}")
    assert (await ann.patch(one, json={"name": "after"})).status_code == 200
    (listed,) = (await ann.get(url(workspace["id"], "archives"))).json()["items"]
    assert listed["snapshot"]["name"] == "after"
    for _ in range(2):
        assert (await ann.delete(one)).status_code == 202
    (listed,) = (await ann.get(url(workspace["id"], "archives"))).json()["items"]
    assert listed["snapshot"] is None
    causes = [each["cause_code"] for each in (await ann.get(url(workspace["id"], "history"))).json()["items"]]
    assert causes[:3] == ["snapshot_deleted", "snapshot_renamed", "snapshot_kept"]


async def test_what_cannot_be_kept_or_copied(environment: ApiEnvironment) -> None:
    ann = (await everybody(environment))["token"]
    workspace = await create_workspace(ann, "thesis")
    new = await ann.post(url(workspace["id"], "snapshots"), json={"name": "kept"})
    assert (new.status_code, new.json()["code"]) == (409, "snapshot_refused")
    none = await ann.post(url(workspace["id"], "copies"), json={"name": "copy"})
    assert (none.status_code, none.json()["code"]) == (409, "not_copyable")
    archive = an_archive(environment, workspace["id"])
    half = await ann.post(url(workspace["id"], "copies"), json={"name": "c", "op_id": str(archive.op_id)})
    assert half.status_code == 422
    missing = body(archive, name="copy") | {"attempt": "0" * 32}
    assert (await ann.post(url(workspace["id"], "copies"), json=missing)).status_code == 404
    taken = await ann.post(url(workspace["id"], "copies"), json=body(archive, name="thesis"))
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")


@pytest.mark.parametrize("name", ["", "a" * 300, "a\u202eb", "\n"])
async def test_names_that_mislead_are_refused(environment: ApiEnvironment, name: str) -> None:
    ann = (await everybody(environment))["token"]
    workspace = await create_workspace(ann, "thesis")
    assert (await ann.post(url(workspace["id"], "snapshots"), json={"name": name})).status_code == 422


async def test_a_wanted_snapshot_is_told_and_cancelled(environment: ApiEnvironment) -> None:
    ann = (await everybody(environment))["token"]
    workspace = await create_workspace(ann, "thesis")
    await execute(
        environment,
        "UPDATE workspaces SET observed_status = 'STANDBY', desired_state = 'STANDBY', "
        "home_ctx = cast(:home as jsonb) WHERE id = cast(:id as uuid)",
        home='{"volume": true}',
        id=workspace["id"],
    )
    told = (await ann.post(url(workspace["id"], "snapshots"), json={"name": "one"})).json()["snapshot_as"]
    assert told["name"] == "one"
    again = (await ann.post(url(workspace["id"], "snapshots"), json={"name": "two"})).json()["snapshot_as"]
    assert again == {"id": told["id"], "name": "two"}
    answer = await ann.delete(url(workspace["id"], f"snapshots/{told['id']}"))
    assert answer.json()["snapshot_as"] is None
