"""Tags and pins of workspaces: who sets them, what a tag may be, and finding workspaces by one."""

import pytest

from tests.integration.api.environment import ApiEnvironment, create_workspace


async def test_a_person_tags_and_pins_their_workspaces(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann, name="thesis", tags=["papers", " Year  2 "])
    assert (workspace["tags"], workspace["pinned"]) == (["papers", "Year 2"], False)

    changed = await ann.patch(
        f"/api/v1/workspaces/{workspace['id']}", json={"tags": ["done"], "pinned": True}
    )
    assert (changed.status_code, changed.json()["tags"], changed.json()["pinned"]) == (200, ["done"], True)
    assert changed.json()["version"] == workspace["version"] + 1  # people see it: streams must tell it

    renamed = await ann.patch(f"/api/v1/workspaces/{workspace['id']}", json={"name": "thesis 2"})
    assert (renamed.json()["tags"], renamed.json()["pinned"]) == (["done"], True)  # what is not sent stays

    history = (await ann.get(f"/api/v1/workspaces/{workspace['id']}/history")).json()["items"]
    told = [each["changes"] for each in history if "tags" in each["changes"] and each["version"] > 1]
    assert told == [{"tags": [["papers", "Year 2"], ["done"]], "pinned": [False, True]}]


async def test_the_list_finds_by_tag(environment: ApiEnvironment) -> None:
    ann, bob = await environment.sign_in("ann"), await environment.sign_in("bob")
    await create_workspace(ann, name="one", tags=["papers", "done"])
    await create_workspace(ann, name="two", tags=["papers"])
    await create_workspace(ann, name="three")
    await create_workspace(bob, name="his", tags=["papers"])

    async def names(query: str) -> list[str]:
        found = (await ann.get(f"/api/v1/workspaces?{query}")).json()["items"]
        return sorted(each["name"] for each in found)

    assert await names("tag=papers") == ["one", "two"]  # one's own only
    assert await names("tag=papers&q=tw") == ["two"]
    assert await names("tag=paper") == []
    assert await names("tag=done") == ["one"]


@pytest.mark.parametrize(
    ("tags", "code", "field"),
    [
        (["x" * 33], "too_long", "tags.0"),
        ([f"t{n}" for n in range(9)], "too_many", "tags"),
        (["a,b"], "tag_characters", "tags.0"),
        (["#a"], "tag_characters", "tags.0"),
        (["ok", "  "], "too_short", "tags.1"),
        (["a\u202eb"], "control_characters", "tags.0"),
        (["\u200b"], "invisible_characters", "tags.0"),
        ("papers", "not_a_list", "tags"),
        ([1], "not_text", "tags.0"),
    ],
)
async def test_what_is_no_tag_is_refused(
    environment: ApiEnvironment, tags: object, code: str, field: str
) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann, name="thesis", tags=["kept"])
    refused = await ann.patch(f"/api/v1/workspaces/{workspace['id']}", json={"tags": tags})
    assert refused.status_code == 422
    assert [(each["code"], each["field"]) for each in refused.json()["errors"]] == [(code, field)]
    assert (await ann.get(f"/api/v1/workspaces/{workspace['id']}")).json()["tags"] == ["kept"]


async def test_a_tag_is_kept_once_whatever_its_case(environment: ApiEnvironment) -> None:
    ann = await environment.sign_in("ann")
    workspace = await create_workspace(ann, name="thesis", tags=["Papers", "done", "papers", "Papers"])
    assert workspace["tags"] == ["Papers", "done"]
