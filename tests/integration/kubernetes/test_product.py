"""The whole of CodeHub on a cluster: through its own command, its API and its proxy."""

from pathlib import Path
from uuid import UUID

from tests.support.instance import codehub_up
from tests.support.kubernetes_environment import HOME, KubernetesEnvironment
from tests.support.kubernetes_product import product_variables
from tests.support.people import Person, coordinators
from tests.support.waiting import until


async def test_a_home_lives_through_sleep_archive_and_a_cluster_that_was_away(
    environment: KubernetesEnvironment, tmp_path: Path
) -> None:
    async with (
        codehub_up(tmp_path / "data", **product_variables(environment)) as instance,
        Person.admin(instance.url) as person,
    ):
        workspace_id = await person.running("project", image="tiny")
        pod = f"ws-{workspace_id}"
        await environment.execute(pod, "sh", "-c", f"printf mine > {HOME}/notes.txt")
        await person.intent(workspace_id, "archive")
        await person.until_status(workspace_id, "archived")
        assert environment.api.find(environment.path("pods", pod)) is None
        assert environment.api.find(environment.path("persistentvolumeclaims", f"{pod}-home")) is None

        await person.navigate(f"/w/{workspace_id}/")  # whoever opens the address brings it back
        await person.until_open(workspace_id)
        await person.until_status(workspace_id, "running")  # people are let in a moment before that

        await environment.break_engine()

        async def is_noticed() -> bool:
            return (await coordinators(instance.url))["observer"]["last_error"] is not None

        await until(is_noticed, what="the cluster to be missed")
        assert (await person.workspace(workspace_id))["status"] == "running"  # and nothing concluded
        await environment.mend_engine()
        await environment.kill_container(UUID(workspace_id))
        await person.until_open(workspace_id, seconds=90)  # the intent stands
        await person.intent(workspace_id, "stop")
        await person.until_status(workspace_id, "standby")
        assert await environment.read(UUID(workspace_id), "notes.txt") == "mine"
