"""Waiting for a running place by the API: only for those who ask, and everybody is told where they stand."""

from typing import Any

import httpx

from tests.integration.api.environment import ApiEnvironment, create_workspace
from tests.integration.api.test_workspaces import WORKSPACES, execute


async def start(client: httpx.AsyncClient, workspace: dict[str, Any], **body: Any) -> httpx.Response:
    return await client.post(f"{WORKSPACES}/{workspace['id']}/start", json=body or None)


async def shown(client: httpx.AsyncClient, workspace: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = (await client.get(f"{WORKSPACES}/{workspace['id']}")).json()
    return found


async def test_who_does_not_ask_is_refused_and_who_asks_waits(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    for name in ("one", "two"):
        await create_workspace(ann, name, start=True)
    third, fourth = await create_workspace(ann, "three"), await create_workspace(ann, "four")
    for answer in (await start(ann, third), await start(ann, third, queue=False)):
        assert (answer.status_code, answer.json()["code"]) == (429, "limit_user")
    waiting = await start(ann, third, queue=True)
    assert waiting.status_code == 202
    assert (waiting.json()["desired_state"], waiting.json()["status"]) == ("PENDING", "new")
    queue = waiting.json()["activity"]["queue"]
    assert (queue["place"], queue["limit"], queue["since"]) == (1, "limit_user", waiting.json()["queued_at"])
    assert queue["estimated_seconds"] is not None
    await start(ann, fourth, queue=True)
    listed = {each["name"]: each["activity"]["queue"] for each in (await ann.get(WORKSPACES)).json()["items"]}
    assert (listed["four"]["place"], listed["one"]) == (2, None)
    left = await ann.post(f"{WORKSPACES}/{third['id']}/stop")
    assert (left.status_code, left.json()["queued_at"], left.json()["activity"]["queue"]) == (202, None, None)
    moved = (await shown(ann, fourth))["activity"]["queue"]
    assert moved["place"] in (1, 2), "the last read may be one second old"
    history = (await ann.get(f"{WORKSPACES}/{third['id']}/history")).json()["items"]
    assert [each["cause"] for each in history if "queued_at" in each["changes"]] == [
        "asked to stop",
        "waits for a running place",
    ]


async def test_the_place_for_everybody_is_counted_over_all(environment: ApiEnvironment) -> None:
    ann, bob = await environment.sign_in("ann"), await environment.sign_in("bob")
    app = environment.with_settings(limits=environment.dependencies.settings.limits.__class__(2, 1))
    transport = httpx.ASGITransport(app)
    people = [
        httpx.AsyncClient(
            transport=transport, base_url="http://codehub.test", cookies=each.cookies, headers=each.headers
        )
        for each in (ann, bob)
    ]
    await create_workspace(people[0], "one", start=True)
    mine = await create_workspace(people[0], "two", start=True, queue=True)
    theirs = await create_workspace(people[1], "three", start=True, queue=True)
    assert (mine["desired_state"], mine["queued_at"] is None) == ("PENDING", False)
    assert [each["activity"]["queue"]["limit"] for each in (mine, theirs)] == ["limit_global"] * 2
    assert [each["activity"]["queue"]["place"] for each in (mine, theirs)] == [1, 2]
    for each in people:
        await each.aclose()


async def test_one_gives_its_place_to_another(environment: ApiEnvironment) -> None:
    ann, bob = await environment.sign_in("ann"), await environment.sign_in("bob")
    demo = await create_workspace(ann, "demo", start=True)
    await create_workspace(ann, "two", start=True)
    thesis = await create_workspace(ann, "thesis")
    foreign = await create_workspace(bob, "foreign", start=True)
    refused = await start(ann, thesis, instead_of=foreign["id"])
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")
    answer = await start(ann, thesis, instead_of=demo["id"])
    assert (answer.status_code, answer.json()["desired_state"]) == (202, "RUNNING")
    assert (await shown(ann, demo))["desired_state"] == "STANDBY"
    (stopped, *_) = (await ann.get(f"{WORKSPACES}/{demo['id']}/history")).json()["items"]
    assert stopped["cause"] == "made room for another workspace"
    again = await start(ann, thesis, instead_of=demo["id"])  # idempotent
    assert again.json()["version"] == answer.json()["version"]


async def test_a_place_that_is_not_free_yet_changes_nothing(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    demo = await create_workspace(ann, "demo", start=True)
    await create_workspace(ann, "two", start=True)
    thesis = await create_workspace(ann, "thesis")
    await execute(
        environment,
        "UPDATE workspaces SET observed_status = 'RUNNING', health_status = 'ERROR' WHERE name = 'demo'",
    )
    assert (await start(ann, thesis, instead_of=demo["id"])).status_code == 429
    assert (await shown(ann, demo))["desired_state"] == "RUNNING"
