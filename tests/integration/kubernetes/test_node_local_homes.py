"""Homes on one node: a lost node is told as such, and its person goes back to the last archive."""

from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from codehub.domain.errors import FailureCode
from codehub.runtimes.kubernetes.catalogue import HomeKind
from codehub.runtimes.kubernetes.inventory import claimed_bytes, read_home
from tests.cluster.api import Json
from tests.cluster.cluster import Cluster
from tests.contract.runtime_suite import FIRST, SECOND, THIRD, ignore, job_of, sight, start
from tests.integration.kubernetes.test_node_faults import (
    COLLECTED_SECONDS,
    environment,
    node_of,
    refusal_of,
    store,
    until_given_up,
)
from tests.support.instance import codehub_up
from tests.support.kubernetes_environment import HOME, KubernetesEnvironment
from tests.support.kubernetes_product import product_variables
from tests.support.people import Person
from tests.support.waiting import until

__all__ = ["environment", "store"]

pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("cluster-faults")]


def claim_of(environment: KubernetesEnvironment, ws: UUID) -> Json:
    return environment.api.get(environment.path("persistentvolumeclaims", f"ws-{ws}-home"))


async def test_a_node_lost_with_a_home_on_it(
    breakable_kubernetes: Cluster, environment: KubernetesEnvironment, ws: UUID
) -> None:
    """The start and the archive name the node and conclude nothing; a restore needs neither node nor old claim."""
    cluster = breakable_kubernetes
    local = await environment.open(
        storage_class="node-local", home_kind=HomeKind.NODE_LOCAL, schedule_seconds=3, gone_seconds=30
    )
    await local.provision(ws, token=FIRST, image_ref="tiny")
    await start(local, ws, image="tiny")
    node = node_of(environment, ws)
    await local.stop(ws, token=FIRST)
    await environment.write(ws, "notes.txt", "archived")
    result = await local.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    await environment.write(ws, "notes.txt", "newer than the archive")
    tied = read_home(claim_of(environment, ws))
    assert (tied.node, tied.node_local) == (node, True)

    cluster.lose(node)
    await until_given_up(cluster, node)
    for call in (
        start(local, ws, token=SECOND, image="tiny"),
        local.run_storage_job(job_of(ws), token=SECOND, on_progress=ignore),
    ):
        refused = await refusal_of(call)
        assert refused.failure is FailureCode.HOME_NODE_UNAVAILABLE
        assert refused.context["node"] == node
        assert refused.context["scheduler"]
    assert (await sight(local, ws)).volume, "it may come back"
    assert read_home(claim_of(environment, ws)).uid == tied.uid

    job = replace(job_of(ws, restore=result.archive_key), image_ref="tiny")
    await local.run_storage_job(job, token=THIRD, on_progress=ignore)
    fresh = read_home(claim_of(environment, ws))
    assert fresh.uid != tied.uid
    assert fresh.node != node
    await start(local, ws, token=THIRD, image="tiny")
    assert node_of(environment, ws) != node
    await local.stop(ws, token=THIRD)
    assert await environment.read(ws, "notes.txt") == "archived"


async def test_a_node_that_comes_back_with_its_home(
    breakable_kubernetes: Cluster, environment: KubernetesEnvironment, ws: UUID
) -> None:
    cluster = breakable_kubernetes
    local = await environment.open(
        storage_class="node-local", home_kind=HomeKind.NODE_LOCAL, schedule_seconds=3
    )
    await local.provision(ws, token=FIRST)
    await start(local, ws, image="tiny")
    node = node_of(environment, ws)
    await local.stop(ws, token=FIRST)
    await environment.write(ws, "notes.txt", "mine")
    cluster.lose(node)
    await until_given_up(cluster, node)
    refused = await refusal_of(start(local, ws, token=SECOND, image="tiny"))
    assert refused.failure is FailureCode.HOME_NODE_UNAVAILABLE
    cluster.mend()
    await start(await environment.open(storage_class="node-local"), ws, token=SECOND, image="tiny")
    assert node_of(environment, ws) == node
    await local.stop(ws, token=SECOND)
    assert await environment.read(ws, "notes.txt") == "mine"


async def test_homes_of_images_are_kept_as_their_entries_say(
    environment: KubernetesEnvironment, ws: UUID
) -> None:
    tiny = environment.settings.images["tiny"]
    local = replace(
        tiny,
        storage_class="node-local",
        home_size=3 * 1024**2,
        access_mode="ReadWriteOnce",
        home_kind=HomeKind.NODE_LOCAL,
    )
    runtime = await environment.open(images={"tiny": tiny, "local": local})
    await runtime.provision(ws, token=FIRST, image_ref="local")
    claim = claim_of(environment, ws)
    assert claim["spec"]["storageClassName"] == "node-local"
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claimed_bytes(claim) == 3 * 1024**2
    assert read_home(claim).node_local
    await start(runtime, ws, image="local")
    await runtime.stop(ws, token=FIRST)
    assert claimed_bytes(claim_of(environment, ws)) == 3 * 1024**2

    result = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    await runtime.delete_volume(ws, token=FIRST)
    restore = replace(job_of(ws, restore=result.archive_key), image_ref="tiny")
    await runtime.run_storage_job(restore, token=SECOND, on_progress=ignore)
    claim = claim_of(environment, ws)
    assert (claim["spec"]["storageClassName"], claimed_bytes(claim)) == ("network", 1024**2)

    async def is_bound() -> bool:
        return bool(claim_of(environment, ws)["status"]["phase"] == "Bound")

    await until(is_bound, what="the new claim is bound")
    assert not read_home(claim_of(environment, ws)).node_local


async def test_a_person_goes_back_to_the_archive_when_the_node_is_gone_for_good(
    breakable_kubernetes: Cluster, environment: KubernetesEnvironment, tmp_path: Path
) -> None:
    cluster = breakable_kubernetes
    settings = product_variables(environment) | {
        "CODEHUB_KUBERNETES_STORAGE_CLASS": "node-local",
        "CODEHUB_KUBERNETES_HOME_KIND": "node-local",
        "CODEHUB_KUBERNETES_SCHEDULE_TIMEOUT": "3",
    }
    async with (
        codehub_up(tmp_path / "data", **settings) as instance,
        Person.admin(instance.url) as person,
    ):
        workspace_id = await person.running("project", image="tiny")
        pod, notes = f"ws-{workspace_id}", f"{HOME}/notes.txt"
        assert (await person.workspace(workspace_id))["node_local_home"] is True
        await environment.execute(pod, "sh", "-c", f"printf archived > {notes}")
        await person.intent(workspace_id, "archive")
        await person.until_status(workspace_id, "archived")
        await person.intent(workspace_id, "start")
        await person.until_status(workspace_id, "running")
        await environment.execute(pod, "sh", "-c", f"printf newer > {notes}")
        node = node_of(environment, UUID(workspace_id))

        cluster.lose(node)
        cluster.api.delete(f"/api/v1/nodes/{node}")  # the operator says: it will not come back
        await person.until_status(workspace_id, "error", seconds=COLLECTED_SECONDS)
        told = await person.workspace(workspace_id)
        assert told["error_info"]["context"]["code"] == "HOME_NODE_UNAVAILABLE"
        assert told["error_info"]["context"]["node"] == node
        assert told["archived_at"] is not None

        path = f"/workspaces/{workspace_id}/return-to-archive"
        await person.api("POST", path, json={"archive_key": told["archive_key"]})
        await person.until_status(workspace_id, "running", seconds=COLLECTED_SECONDS)
        assert node_of(environment, UUID(workspace_id)) != node
        await person.intent(workspace_id, "stop")
        await person.until_status(workspace_id, "standby")
        assert await environment.read(UUID(workspace_id), "notes.txt") == "archived"
