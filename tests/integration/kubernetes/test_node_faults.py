"""Nodes that are cut off or lost, and a scheduler that is away: nothing is started twice, and people are told why."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from codehub.domain.errors import EffectError, FailureCode
from codehub.domain.states import ContainerState
from codehub.runtimes.base import Sighting
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from tests.cluster.cluster import Cluster
from tests.cluster.control_plane import NODE_GRACE_SECONDS
from tests.cluster.fixtures import KubernetesUnderTest, fresh_namespace
from tests.contract.runtime_suite import FIRST, SECOND, ignore, job_of, sight, start
from tests.support.docker_images import TWO_WRITERS
from tests.support.kubernetes_environment import KubernetesEnvironment, address_for_pods, ensure_images
from tests.support.object_stores import S3Server, moto_server
from tests.support.waiting import until

pytestmark = [pytest.mark.timeout(1200), pytest.mark.xdist_group("cluster-faults")]

GIVEN_UP_SECONDS = 4 * NODE_GRACE_SECONDS
COLLECTED_SECONDS = 180
"""Pods of a node that is out of service are collected every 20 s."""


@pytest.fixture
def store(breakable_kubernetes: Cluster) -> Iterator[S3Server]:
    ensure_images(_under_test(breakable_kubernetes))
    with moto_server(address_for_pods(breakable_kubernetes.api)) as server:
        yield server


@pytest.fixture
async def environment(breakable_kubernetes: Cluster, store: S3Server) -> AsyncIterator[KubernetesEnvironment]:
    with fresh_namespace(breakable_kubernetes.api) as namespace:
        environment = KubernetesEnvironment(_under_test(breakable_kubernetes), namespace, store)
        await environment.prepare()
        yield environment
        await environment.close()
        await asyncio.to_thread(breakable_kubernetes.mend)


async def test_a_node_that_is_cut_off_while_its_pod_still_writes(
    breakable_kubernetes: Cluster, environment: KubernetesEnvironment, ws: UUID
) -> None:
    cluster = breakable_kubernetes
    runtime = await environment.open(gone_seconds=2)
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image="writer")
    node, home = node_of(environment, ws), home_of(cluster, environment, ws)
    cluster.partition(node)

    stopped = await refusal_of(runtime.stop(ws, token=SECOND))
    assert stopped.failure is FailureCode.CONTAINER_STOP_FAILED
    assert node in stopped.message
    started = await refusal_of(start(runtime, ws, token=SECOND, image="writer"))
    assert started.failure is FailureCode.CONTAINER_STOP_FAILED
    archived = await refusal_of(runtime.run_storage_job(job_of(ws), token=SECOND, on_progress=ignore))
    assert archived.failure is FailureCode.VOLUME_IN_USE
    await until_written(home)  # all the while
    assert pods_of(environment, ws) == [f"ws-{ws}"]
    assert (await sight(runtime, ws)).volume

    cluster.heal(node)
    patient = await environment.open()
    await patient.stop(ws, token=SECOND)
    await start(patient, ws, token=SECOND, image="writer")
    await until_written(home)
    assert not (home / TWO_WRITERS).exists()


async def test_a_node_that_is_lost_for_good(
    breakable_kubernetes: Cluster, environment: KubernetesEnvironment, ws: UUID
) -> None:
    """Its pods stay until the operator says it is off. An archive needs no node, a node-local home its own."""
    cluster, archived, tied = breakable_kubernetes, uuid4(), uuid4()
    runtime = await environment.open(gone_seconds=2)
    local = await environment.open(storage_class="node-local", gone_seconds=2, schedule_seconds=3)
    await runtime.provision(ws, token=FIRST)
    await start(runtime, ws, image="writer")
    node = node_of(environment, ws)
    key = await make_archive(runtime, archived)
    await local.provision(tied, token=FIRST)
    await start(await _on_node(environment, node), tied, image="writer")
    await local.stop(tied, token=FIRST)

    cluster.lose(node)
    assert (await refusal_of(runtime.stop(ws, token=SECOND))).failure is FailureCode.CONTAINER_STOP_FAILED
    await until_given_up(cluster, node)
    assert (await sight(runtime, ws)).container is ContainerState.RUNNING  # nothing is concluded
    await runtime.run_storage_job(job_of(archived, restore=key), token=SECOND, on_progress=ignore)
    await start(runtime, archived, token=SECOND, image="writer")
    assert node_of(environment, archived) != node
    refused = await refusal_of(start(local, tied, token=SECOND, image="writer"))
    assert refused.failure is FailureCode.UNSCHEDULABLE

    taint = {"key": "node.kubernetes.io/out-of-service", "value": "off", "effect": "NoExecute"}
    path = f"/api/v1/nodes/{node}"
    taints = cluster.api.get(path)["spec"].get("taints", [])
    cluster.api.patch(path, {"spec": {"taints": [*taints, taint]}})

    async def is_collected() -> bool:
        return pods_of(environment, ws) == []

    await until(is_collected, what="the lost pod is collected", seconds=COLLECTED_SECONDS)
    await start(runtime, ws, token=SECOND, image="writer")
    assert node_of(environment, ws) != node
    kept = [each for each in cluster.api.get(path)["spec"].get("taints", []) if each["key"] != taint["key"]]
    cluster.api.patch(path, {"spec": {"taints": kept}})


async def test_no_scheduler(
    breakable_kubernetes: Cluster, environment: KubernetesEnvironment, ws: UUID
) -> None:
    breakable_kubernetes.kill("scheduler")
    runtime = await environment.open(schedule_seconds=2)
    await runtime.provision(ws, token=FIRST)
    assert (await refusal_of(start(runtime, ws, image="tiny"))).failure is FailureCode.UNSCHEDULABLE
    assert await sight(runtime, ws) == Sighting(volume=True)
    breakable_kubernetes.start_part("scheduler")
    await start(await environment.open(), ws, token=SECOND, image="tiny")


async def test_a_claim_that_was_removed(environment: KubernetesEnvironment, ws: UUID) -> None:
    runtime = await environment.open()
    await runtime.provision(ws, token=FIRST)
    environment.api.delete(environment.path("persistentvolumeclaims", f"ws-{ws}-home"))

    async def is_gone() -> bool:
        return await sight(runtime, ws) == Sighting()

    await until(is_gone, what="the claim is gone")
    assert (await refusal_of(start(runtime, ws, image="tiny"))).failure is FailureCode.VOLUME_MISSING


async def test_a_volume_that_was_removed_under_its_claim(
    environment: KubernetesEnvironment, ws: UUID
) -> None:
    runtime = await environment.open(schedule_seconds=3)
    await runtime.provision(ws, token=FIRST)
    claim = environment.path("persistentvolumeclaims", f"ws-{ws}-home")

    async def is_bound() -> bool:
        return bool(environment.api.get(claim)["status"]["phase"] == "Bound")

    await until(is_bound, what="the claim is bound")
    volume = f"/api/v1/persistentvolumes/{environment.api.get(claim)['spec']['volumeName']}"
    environment.api.delete(volume)
    environment.api.patch(volume, {"metadata": {"finalizers": None}})

    async def is_lost() -> bool:
        return bool(environment.api.get(claim)["status"]["phase"] == "Lost")

    await until(is_lost, what="the claim is lost")
    refused = await refusal_of(start(runtime, ws, image="tiny"))
    assert refused.failure is FailureCode.UNSCHEDULABLE
    assert "persistentvolume" in refused.message
    assert await sight(runtime, ws) == Sighting(volume=True)


async def make_archive(runtime: KubernetesRuntime, ws: UUID) -> str:
    """A home that is in the archive alone; its key."""
    await runtime.provision(ws, token=FIRST)
    result = await runtime.run_storage_job(job_of(ws), token=FIRST, on_progress=ignore)
    await runtime.delete_volume(ws, token=FIRST)
    return result.archive_key


async def _on_node(environment: KubernetesEnvironment, node: str) -> KubernetesRuntime:
    """A runtime whose pods run there, on homes that are tied to it from then on."""
    patch = {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}}}
    return await environment.open(storage_class="node-local", pod_patch=patch)


async def refusal_of(call: object) -> EffectError:
    with pytest.raises(EffectError) as caught:
        await call  # type: ignore[misc]
    return caught.value


def node_of(environment: KubernetesEnvironment, ws: UUID) -> str:
    return str(environment.api.get(environment.path("pods", f"ws-{ws}"))["spec"]["nodeName"])


def pods_of(environment: KubernetesEnvironment, ws: UUID) -> list[str]:
    listed = environment.api.get(environment.path("pods"), labelSelector=f"codehub.workspace={ws}")
    return [each["metadata"]["name"] for each in listed["items"]]


def home_of(cluster: Cluster, environment: KubernetesEnvironment, ws: UUID) -> Path:
    claim = environment.api.get(environment.path("persistentvolumeclaims", f"ws-{ws}-home"))
    return cluster.layout.path("volumes", claim["spec"]["volumeName"], "home")


async def until_written(home: Path) -> None:
    """Until the workspace has written once more."""
    before = (home / ".turn").stat().st_mtime_ns

    async def has_changed() -> bool:
        return (home / ".turn").stat().st_mtime_ns > before

    await until(has_changed, what="the pod writes", seconds=60)


async def until_given_up(cluster: Cluster, node: str) -> None:
    async def is_given_up() -> bool:
        return not cluster.is_ready(node)

    await until(is_given_up, what=f"{node} is given up", seconds=GIVEN_UP_SECONDS)


def _under_test(cluster: Cluster) -> KubernetesUnderTest:
    return KubernetesUnderTest(cluster.kubeconfig, cluster.api, cluster)
