"""What disagrees, as the operator's console lists it, and its repairs: what they write and what they refuse."""

from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import httpx

from codehub.archives.keys import new_attempt
from codehub.archives.meta import Binding
from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.integration.api.test_roles import an_error, execute
from tests.support.archive_forgery import meta_of, plant

FINDINGS = "/api/v1/admin/findings"


async def listed(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await client.get(FINDINGS)
    assert answer.status_code == 200, answer.text
    return {each["kind"]: each for each in answer.json()["items"]}


async def repaired(client: httpx.AsyncClient, workspace_id: UUID | str, **body: str) -> httpx.Response:
    return await client.post(f"{FINDINGS}/{workspace_id}/repair", json=body)


async def test_errors_and_strays_are_listed_with_their_repairs(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    ann = await environment.sign_in("ann")
    assert await listed(admin) == {}
    broken = await create_workspace(ann, "broken")
    await execute(
        environment,
        "UPDATE workspaces SET error_info = cast(:info as jsonb), health_status = 'ERROR' WHERE id = :id",
        info=an_error("STARTING", "RetryExceeded", terminal=True),
        id=broken["id"],
    )
    stray = uuid4()
    environment.runtime.place(stray).volume = {}
    found = await listed(admin)
    assert (found["error"]["name"], found["error"]["owner"]) == ("broken", "ann")
    assert found["error"]["repairs"] == ["recover"]
    assert found["unknown_volume"]["workspace_id"] == str(stray)
    assert found["unknown_volume"]["repairs"] == ["adopt"]

    answer = await repaired(admin, broken["id"], repair="recover")
    assert (answer.status_code, answer.json()["error_info"]) == (202, None)


async def test_a_stray_volume_is_adopted_once_and_its_owner_told_apart(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    stray = uuid4()
    environment.runtime.place(stray).volume = {"notes": b"mine"}
    answer = await repaired(admin, stray, repair="adopt", name="found again")
    assert answer.status_code == 202, answer.text
    made = answer.json()
    assert (made["id"], made["name"], made["desired_state"]) == (str(stray), "found again", "PENDING")
    assert made["restore_from"] is None  # the volume is archived, and not replaced by an older archive
    again = await repaired(admin, stray, repair="adopt")
    assert (again.status_code, again.json()["code"]) == (409, "nothing_to_adopt")
    assert "unknown_volume" not in await listed(admin)
    entries = (await admin.get("/api/v1/admin/audit")).json()["items"]
    assert [each["subject"] for each in entries if each["action"] == "workspace.adopt"] == [str(stray)]


async def test_the_newest_of_its_archives_becomes_the_home(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    stray = uuid4()
    plant(environment.archives, stray, b"older")
    newest = meta_of(b"newer")
    newer = plant(
        environment.archives,
        stray,
        b"newer",
        meta=replace(newest, created_at=newest.created_at.replace(year=2027)),
    )
    answer = await repaired(admin, stray, repair="adopt")
    assert answer.status_code == 202, answer.text
    assert answer.json()["restore_from"]["archive_key"] == newer.key
    assert answer.json()["name"] == f"found-{stray.hex[-8:]}"


async def test_nothing_and_what_is_anothers_is_not_adopted(environment: ApiEnvironment) -> None:
    admin = await environment.sign_in("admin")
    theirs = uuid4()
    binding = Binding(theirs, new_attempt(theirs, uuid4()).op_id, str(uuid4()))
    plant(environment.archives, theirs, b"theirs", meta=replace(meta_of(b"theirs"), binding=binding))
    for workspace_id in (uuid4(), theirs):
        answer = await repaired(admin, workspace_id, repair="adopt")
        assert (answer.status_code, answer.json()["code"]) == (409, "nothing_to_adopt")
    answer = await repaired(admin, theirs, repair="adopt", image_ref="no such image")
    assert answer.json()["code"] == "unknown_image"
    mine = await create_workspace(admin, "mine")
    answer = await repaired(admin, mine["id"], repair="return_to_newest")
    assert (answer.status_code, answer.json()["code"]) == (409, "archive_not_restorable")


async def test_a_vanished_home_goes_back_to_an_archive_the_row_does_not_know(
    environment: ApiEnvironment,
) -> None:
    """By an administrator: a disk may merely not be mounted, and its owner cannot know."""
    admin, ann = await environment.sign_in("admin"), await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    archive = plant(environment.archives, UUID(workspace["id"]), b"files")
    await execute(
        environment,
        "UPDATE workspaces SET home_ctx = '{\"volume\": true}', health_status = 'ERROR', error_info = "
        "jsonb_set(cast(:info as jsonb), '{context,code}', '\"VOLUME_MISSING\"') WHERE id = :id",
        info=an_error("NONE", "Mismatch", terminal=True),
        id=workspace["id"],
    )
    assert (await listed(admin))["volume_vanished"]["repairs"] == ["return_to_newest", "recover"]
    restore = {"op_id": str(archive.op_id), "attempt": archive.attempt}
    refused = await ann.post(f"/api/v1/workspaces/{workspace['id']}/restore", json=restore)
    assert refused.json()["code"] == "archive_not_restorable"
    answer = await repaired(admin, workspace["id"], repair="return_to_newest")
    assert answer.status_code == 202, answer.text
    assert answer.json()["restore_from"]["archive_key"] == archive.key
    assert answer.json()["error_info"] is None
