"""Event streams: each subscriber equals the database, through restarts of everything."""

from tests.integration.api.listening import change_feed, listening
from tests.integration.api.world import World, create_workspace, serve


async def test_a_list_begins_with_its_ids_then_each_workspace_then_only_news(
    world: World, database_url: str
) -> None:
    ann = await world.sign_in("ann")
    first = await create_workspace(ann, "first")
    second = await create_workspace(ann, "second")
    async with (
        change_feed(database_url, world.publisher),
        serve(world.app) as base,
        listening(ann, f"{base}/api/v1/events") as heard,
    ):
        await heard.until(1, "snapshot")
        await heard.until(2, "state_changed")
        assert heard.names()[0] == "snapshot"
        assert set(heard.events[0].data["ids"]) == {first["id"], second["id"]}

        await ann.post(f"/api/v1/workspaces/{first['id']}/start")
        before = len(heard.named("state_changed"))
        news = await heard.until(before + 1, "state_changed")
        assert news.data["id"] == first["id"]
        assert news.data["desired_state"] == "RUNNING"
        assert news.id == f"{first['id']}:{news.data['version']}"
