"""A home on a node that is lost: who may give it up for its last archive, when, and what that changes."""

import json
from uuid import UUID

import pytest

from codehub.domain.workspace import HomeContext
from codehub.store import control
from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.integration.api.test_roles import WHO, everybody, execute, mine

KEY = "0190/op/1/home.tar.zst"
HOME = {
    "volume": True,
    "restore_marker": KEY,
    "archived_key": KEY,
    "archived_at": "2026-01-02T03:04:05+00:00",
}


def node_away(code: str = "HOME_NODE_UNAVAILABLE") -> str:
    return json.dumps(
        {
            "reason": "ActionFailed",
            "message": "The home of this workspace is on the node node-1, which did not take it.",
            "is_terminal": True,
            "operation": "STARTING",
            "error_count": 1,
            "context": {"code": code, "node": "node-1"},
            "occurred_at": "2026-01-03T00:00:00+00:00",
        }
    )


async def lose_node(
    environment: ApiEnvironment, workspace_id: str, *, error: str | None = None, status: str = "STANDBY"
) -> None:
    await execute(
        environment,
        "UPDATE workspaces SET error_info = cast(:info as jsonb), home_ctx = cast(:home as jsonb), "
        "archive_key = :key, observed_status = cast(:status as observed_status), health_status = 'ERROR' "
        "WHERE id = cast(:id as uuid)",
        info=error or node_away(),
        home=json.dumps(HOME),
        key=KEY,
        status=status,
        id=workspace_id,
    )


async def home_of(environment: ApiEnvironment, workspace_id: str) -> HomeContext:
    async with environment.sessions.begin() as session:
        record = await control.find(session, UUID(workspace_id))
    assert record is not None
    return record.view.home


def path(workspace_id: str) -> str:
    return f"/api/v1/workspaces/{workspace_id}/return-to-archive"


async def test_its_owner_and_administrators_may(environment: ApiEnvironment) -> None:
    people = await everybody(environment)
    for who, status in zip(WHO, mine(202), strict=True):
        workspace = await create_workspace(people["token"], f"for {who}")
        await lose_node(environment, workspace["id"])
        answer = await people[who].post(path(workspace["id"]), json={"archive_key": KEY})
        assert answer.status_code == status, (who, answer.text)
        after = (await people["admin"].get(f"/api/v1/workspaces/{workspace['id']}")).json()
        assert (after["error_info"] is None) == (status == 202)


async def test_the_home_is_given_up_and_told(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    await lose_node(environment, workspace["id"])
    shown = (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()
    assert (shown["archived_at"], shown["status"]) == ("2026-01-02T03:04:05Z", "error")
    answer = await ann.post(path(workspace["id"]), json={"archive_key": KEY})
    assert answer.status_code == 202
    assert answer.json()["archive_key"] == KEY
    home = await home_of(environment, workspace["id"])
    assert (home.restore_marker, home.volume) == (None, False)
    (newest, *_) = (await ann.get(f"/api/v1/workspaces/{workspace['id']}/history")).json()["items"]
    assert (newest["cause_code"], newest["actor"]) == ("returned_to_archive", "user:ann")


@pytest.mark.parametrize(
    ("error", "status", "key"),
    [
        (node_away("UNSCHEDULABLE"), "STANDBY", KEY),  # the home is not on one node
        (node_away(), "RUNNING", KEY),  # somebody may be writing to it
        (node_away(), "STANDBY", "an older one"),  # not what the person was shown
    ],
)
async def test_nothing_is_given_up_otherwise(
    environment: ApiEnvironment, error: str, status: str, key: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    await lose_node(environment, workspace["id"], error=error, status=status)
    answer = await ann.post(path(workspace["id"]), json={"archive_key": key})
    assert (answer.status_code, answer.json()["code"]) == (409, "home_not_given_up")
    after = (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()
    assert after["error_info"] is not None
    assert (await home_of(environment, workspace["id"])).restore_marker == KEY


async def test_a_start_tries_the_node_again(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann)
    await lose_node(environment, workspace["id"])
    started = (await ann.post(f"/api/v1/workspaces/{workspace['id']}/start")).json()
    assert (started["error_info"], started["desired_state"]) == (None, "RUNNING")
    assert (await home_of(environment, workspace["id"])).restore_marker == KEY, "nothing is given up by that"
