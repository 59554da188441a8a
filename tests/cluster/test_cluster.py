"""The cluster for tests does what tests on it rely on."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import KubernetesUnderTest, fresh_namespace
from tests.cluster.images import busybox_archive
from tests.cluster.objects import IMAGE, PORT, Namespace, answers
from tests.cluster.waiting import until
from tests.support.docker_images import busybox_tar
from tests.support.tiny_registry import run_registry

pytestmark = [pytest.mark.needs_built_images, pytest.mark.timeout(1200)]

SERVE = f"httpd -f -p {PORT} -h /www"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """One of our own, whatever the others are tested on."""
    given: KubernetesUnderTest = request.getfixturevalue("kubernetes")
    cluster: Cluster = given.cluster or request.getfixturevalue("own_cluster")
    archive = tmp_path_factory.mktemp("images") / "busybox.tar"
    archive.write_bytes(busybox_archive(IMAGE))
    cluster.import_image(archive)
    return cluster


@pytest.fixture
def place(cluster: Cluster) -> Iterator[Namespace]:
    with fresh_namespace(cluster.api) as name:
        yield Namespace(cluster.api, name)


def test_pod_answers_this_machine_and_the_other_node(place: Namespace) -> None:
    place.create_pod("server", SERVE, node="node-1")
    address = place.wait_for_pod("server")["status"]["podIP"]
    until(lambda: answers(address), "the pod answers this machine")
    place.create_pod("client", f"wget -q -O - http://{address}:{PORT}/", node="node-2")
    place.wait_for_pod("client", "Succeeded")
    assert place.log("client") == "a workspace\n"


def test_pod_reaches_this_machine(cluster: Cluster, place: Namespace) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(f"you are {self.client_address[0]}".encode())

    with ThreadingHTTPServer((cluster.layout.host_ip, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place.create_pod("client", f"wget -q -O - http://{cluster.layout.host_ip}:{server.server_port}/")
        address = place.wait_for_pod("client", "Succeeded")["status"]["podIP"]
        server.shutdown()
    assert place.log("client") == f"you are {address}"


def test_image_is_pulled_from_this_machine(cluster: Cluster, place: Namespace) -> None:
    config = {"Entrypoint": ["/bin/busybox", "echo", "pulled"]}
    with run_registry(busybox_tar(), config, host=cluster.layout.host_ip) as registry:
        cluster.trust_registry(f"{registry.host}:{registry.port}")
        place.create_pod("pulled", "", image=registry.reference("echo"))
        place.wait_for_pod("pulled", "Succeeded")
    assert place.log("pulled") == "pulled \n"


def test_service_is_found_by_its_name(place: Namespace) -> None:
    place.create_service("server")
    place.create_pod("server", SERVE, node="node-1")
    place.wait_for_pod("server")
    place.create_pod("client", "until wget -q -O - http://server/; do sleep 0.1; done", node="node-2")
    place.wait_for_pod("client", "Succeeded")
    assert place.log("client").endswith("a workspace\n")


@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_network_policy_is_enforced(place: Namespace, node: str) -> None:
    place.allow_only("server", "friend")
    place.create_pod("server", SERVE, node="node-1")
    address = place.wait_for_pod("server")["status"]["podIP"]
    place.create_pod("friend", f"until {_fetch(address)}; do sleep 0.1; done; echo in", node=node)
    place.wait_for_pod("friend", "Succeeded")
    place.create_pod("stranger", f"{_fetch(address)} || echo out", node=node)
    place.wait_for_pod("stranger", "Succeeded")
    assert place.log("friend").endswith("in\n")
    assert "out" in place.log("stranger").splitlines()  # the shell's word about the timeout may come after it
    assert not answers(address)


def _fetch(address: str) -> str:
    return f"busybox timeout 3 wget -q -O - http://{address}:{PORT}/"


def test_data_outlives_its_pod_and_goes_with_its_claim(cluster: Cluster, place: Namespace) -> None:
    place.create_claim("home", "node-local")
    owner = {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 1000}
    place.create_pod("writer", "echo kept > /data/file", claim="home", securityContext=owner)
    place.wait_for_pod("writer", "Succeeded")
    place.delete_pod("writer")
    place.create_pod("reader", "cat /data/file", claim="home", securityContext=owner)
    place.wait_for_pod("reader", "Succeeded")
    assert place.log("reader") == "kept\n"
    volume = cluster.layout.path("volumes", place.wait_for_claim("home")["spec"]["volumeName"])
    assert (volume / "file").read_text() == "kept\n"
    place.delete_pod("reader")
    place.api.delete(place.path("persistentvolumeclaims", "home"))
    until(lambda: not volume.exists(), "the directory is gone")
    until(lambda: place.api.find(f"/api/v1/persistentvolumes/{volume.name}") is None, "the volume is gone")


def test_network_volume_follows_its_pod_to_another_node(place: Namespace) -> None:
    place.create_claim("home", "network")
    place.wait_for_claim("home")
    place.create_pod("writer", "echo moved > /data/file", node="node-1", claim="home")
    place.wait_for_pod("writer", "Succeeded")
    place.delete_pod("writer")
    place.create_pod("reader", "cat /data/file", node="node-2", claim="home")
    place.wait_for_pod("reader", "Succeeded")
    assert place.log("reader") == "moved\n"


def test_network_volume_grows(place: Namespace) -> None:
    place.create_claim("home", "network")
    place.wait_for_claim("home")
    path = place.path("persistentvolumeclaims", "home")
    place.api.patch(path, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    until(lambda: place.api.get(path)["status"]["capacity"]["storage"] == "2Gi", "the claim has grown")


def test_retained_volume_outlives_its_claim(cluster: Cluster, place: Namespace) -> None:
    place.create_claim("home", "retained")
    name = place.wait_for_claim("home")["spec"]["volumeName"]
    place.api.delete(place.path("persistentvolumeclaims", "home"))
    volume = f"/api/v1/persistentvolumes/{name}"
    until(lambda: place.api.get(volume)["status"]["phase"] == "Released", "the volume is released")
    assert cluster.layout.path("volumes", name).is_dir()
    place.api.delete(volume)


def test_second_pod_on_a_claim_for_one_pod_waits(place: Namespace) -> None:
    place.create_claim("home", "network")
    place.create_pod("first", SERVE, claim="home")
    place.wait_for_pod("first")
    place.create_pod("second", SERVE, claim="home")

    def is_refused() -> bool:
        conditions = place.api.get(place.path("pods", "second"))["status"].get("conditions", [])
        return any(each.get("reason") == "Unschedulable" for each in conditions)

    until(is_refused, "the second pod cannot be scheduled")
    place.delete_pod("first")
    place.wait_for_pod("second")
