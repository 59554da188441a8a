"""A workspace that no node takes says so, for as long as its own limit allows and no other limit cares."""

from datetime import UTC, datetime
from pathlib import Path

from tests.support.instance import codehub_up
from tests.support.kubernetes_environment import KubernetesEnvironment
from tests.support.kubernetes_product import product_variables
from tests.support.people import Person
from tests.support.waiting import until

STARTING_SECONDS = 6


async def test_the_wait_is_shown_and_uses_up_no_other_limit(
    environment: KubernetesEnvironment, tmp_path: Path
) -> None:
    settings = {
        **product_variables(environment),
        "CODEHUB_KUBERNETES_NODE_SELECTOR": f'{{"{environment.node_label}": "yes"}}',
        "RECONCILER_STARTING_TIMEOUT": str(STARTING_SECONDS),
        "CODEHUB_KUBERNETES_SCHEDULE_TIMEOUT": "300",
    }
    async with (
        codehub_up(tmp_path / "data", **settings) as instance,
        Person.admin(instance.url) as person,
    ):
        workspace_id = await person.create("project", image="tiny", start=True)

        async def waits() -> str:
            return str((await person.workspace(workspace_id))["waiting_for"] or "")

        words = await until(waits, what="the wait is shown", seconds=60)
        assert "node" in words

        async def waited_beyond_the_limit() -> bool:
            found = await person.workspace(workspace_id)
            assert found["status"] == "starting", found["error_info"]
            waited = datetime.now(UTC) - datetime.fromisoformat(found["op_started_at"])
            return waited.total_seconds() > STARTING_SECONDS * 2

        await until(waited_beyond_the_limit, what="the start is older than its limit", seconds=60)
        assert await waits()
        await environment.add_node()
        await person.until_status(workspace_id, "running")
        assert await waits() == ""
