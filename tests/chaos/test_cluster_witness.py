"""The witnesses of a round on a cluster see the harm they are there for."""

from collections.abc import Iterator

import pytest

from tests.chaos.cluster_witness import ClusterWitness
from tests.cluster.fixtures import KubernetesUnderTest
from tests.cluster.objects import Namespace
from tests.cluster.waiting import until
from tests.support.docker_images import SCRIPTS, TWO_WRITERS, image
from tests.support.kubernetes_environment import ensure_images


@pytest.fixture
def place(kubernetes: KubernetesUnderTest, namespace: str) -> Namespace:
    ensure_images(kubernetes)
    return Namespace(kubernetes.api, namespace)


@pytest.fixture
def witness(kubernetes: KubernetesUnderTest, namespace: str) -> Iterator[ClusterWitness]:
    if kubernetes.cluster is None:
        pytest.skip("needs a cluster of our own: the witness reads its etcd")
    witness = ClusterWitness(f"http://{kubernetes.cluster.layout.loopback_ip}:2379", namespace)
    yield witness
    witness.close()


def run_writer(place: Namespace, name: str, *, node: str | None = None) -> None:
    script = SCRIPTS["writer"].replace("$HOME", "/data").replace("$CODEHUB_PORT", "8081")
    place.create_pod(name, script, node=node, claim="home", image=image("writer"), command=["/bin/sh", "-c"])


def test_two_pods_on_one_home_are_seen_and_find_each_other(
    kubernetes: KubernetesUnderTest, place: Namespace, witness: ClusterWitness
) -> None:
    place.create_claim("home", "network", mode="ReadWriteMany")
    run_writer(place, "one", node="node-1")
    place.wait_for_pod("one")
    assert witness.problems == []
    run_writer(place, "two", node="node-2")
    until(lambda: witness.problems, "the witness has seen both")
    assert "one" in witness.problems[0]
    assert "two" in witness.problems[0]
    assert kubernetes.cluster is not None
    volume = place.wait_for_claim("home")["spec"]["volumeName"]
    until((kubernetes.cluster.layout.path("volumes", volume) / TWO_WRITERS).exists, "one has found the other")


def test_a_pod_that_is_removed_by_force_is_seen(place: Namespace, witness: ClusterWitness) -> None:
    place.create_claim("home", "network")
    run_writer(place, "one")
    place.wait_for_pod("one")
    place.api.delete(place.path("pods", "one"), gracePeriodSeconds=0)
    until(lambda: witness.problems, "the witness has seen it")
    assert "removed before it had ended" in witness.problems[0]


def test_a_pod_that_ends_before_the_next_one_is_no_harm(place: Namespace, witness: ClusterWitness) -> None:
    place.create_claim("home", "network")
    for name in ("one", "two"):
        place.create_pod(
            name,
            "sleep 1000",
            claim="home",
            image=image("tiny"),
            command=["/bin/sh", "-c"],
            terminationGracePeriodSeconds=1,
        )
        place.wait_for_pod(name)
        place.delete_pod(name)
    assert witness.writes > 4
    assert witness.problems == []
