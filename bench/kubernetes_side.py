"""A cluster to measure on: CodeHub's settings for it, bare pods beside it, and a node without containers.

The cluster is that of ``CODEHUB_TEST_KUBECONFIG``, or one of our own for the length of the run (``tests/cluster``).
"""

import asyncio
import contextlib
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from tests.cluster.api import KubernetesApi
from tests.cluster.binary import built_programs
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import GIVEN, KubernetesUnderTest, fresh_namespace
from tests.cluster.processes import Process
from tests.cluster.requirements import require_cluster_programs
from tests.support.docker_images import image
from tests.support.kubernetes_environment import HOME, PORT, address_for_pods, ensure_images
from tests.support.object_stores import S3Server, moto_server

from codehub.runtimes.base import FencingToken, ResourceLimits
from codehub.runtimes.kubernetes.access import find_access
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.runtimes.kubernetes.client import ApiClient, namespaced
from codehub.runtimes.kubernetes.inventory import read_pod
from codehub.runtimes.kubernetes.manifests import Order, home_claim, workspace_pod
from codehub.runtimes.kubernetes.names import Names
from codehub.runtimes.kubernetes.settings import KubernetesSettings

TOKEN = FencingToken(1, 1)
logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the object store tells of every request
CLASS, HOME_BYTES = "network", 16 * 1024**2
LIMIT_BYTES, REQUEST_BYTES, REQUEST_CPUS = 64 * 1024**2, 16 * 1024**2, 0.01
FAKE_NODE = "bench-fake"
_WATCH_SECONDS = 3600.0


@contextmanager
def cluster_for_measuring() -> Iterator[KubernetesUnderTest]:
    if given := os.environ.get(GIVEN):
        api = KubernetesApi(Path(given))
        found = KubernetesUnderTest(Path(given), api, None)
        ensure_images(found)
        yield found
        api.close()
        return
    require_cluster_programs()
    cluster = Cluster.start(f"bench-{os.getpid()}", built_programs(), owner=Process.find(os.getpid()))
    try:
        found = KubernetesUnderTest(cluster.kubeconfig, cluster.api, cluster)
        ensure_images(found)
        yield found
    finally:
        cluster.stop()


@dataclass
class Place:
    """A namespace of the cluster, an object store beside it, and a client as the runtime has."""

    kubernetes: KubernetesUnderTest
    namespace: str
    store: S3Server
    api: ApiClient
    settings: KubernetesSettings
    names: Names = field(default_factory=lambda: Names(f"bench-{uuid4().hex[:8]}"))

    def variables(self, *, port: int = PORT) -> dict[str, str]:
        """Settings of a CodeHub here. ``port``: where its workspaces listen."""
        images = {"tiny": {"image": image("tiny"), "port": port, "home": HOME, "pull_policy": "Never"}}
        return {
            **self.store.variables(self.store.new_bucket()),
            "CODEHUB_RUNTIME": "kubernetes",
            "KUBECONFIG": str(self.kubernetes.kubeconfig),
            "CODEHUB_KUBERNETES_NAMESPACE": self.namespace,
            "CODEHUB_KUBERNETES_IMAGES": json.dumps(images),
            "CODEHUB_KUBERNETES_JOB_IMAGE": image("job"),
            "CODEHUB_KUBERNETES_INSIDE_IMAGE": image("inside"),
            "CODEHUB_KUBERNETES_STORAGE_CLASS": CLASS,
            "CODEHUB_KUBERNETES_HOME_SIZE": str(HOME_BYTES),
            "CODEHUB_KUBERNETES_LIMIT_MEMORY": str(LIMIT_BYTES),
            "CODEHUB_KUBERNETES_REQUEST_MEMORY": str(REQUEST_BYTES),
            "CODEHUB_KUBERNETES_REQUEST_CPUS": str(REQUEST_CPUS),
        }

    def spawner(self) -> dict[str, Any]:
        """The same workspaces for JupyterHub's kubespawner."""
        return {
            "namespace": self.namespace,
            "kubeconfig": str(self.kubernetes.kubeconfig),
            "image": image("tiny"),
            "port": PORT,
            "home": HOME,
            "storage_class": CLASS,
            "home_bytes": str(HOME_BYTES),
            "memory": LIMIT_BYTES,
            "memory_guarantee": REQUEST_BYTES,
            "cpu_guarantee": REQUEST_CPUS,
        }


@asynccontextmanager
async def place_on(kubernetes: KubernetesUnderTest) -> AsyncIterator[Place]:
    with (
        fresh_namespace(kubernetes.api) as namespace,
        moto_server(address_for_pods(kubernetes.api)) as store,
    ):
        settings = KubernetesSettings(
            images={"tiny": Image(image("tiny"), port=PORT, home=HOME, pull_policy="Never")},
            inside_image=image("inside"),
            namespace=namespace,
            storage_class=CLASS,
            home_bytes=HOME_BYTES,
            default_limits=ResourceLimits(memory_bytes=LIMIT_BYTES),
            requests=ResourceLimits(memory_bytes=REQUEST_BYTES, cpus=REQUEST_CPUS),
        )
        api = ApiClient(find_access(str(kubernetes.kubeconfig)))
        try:
            yield Place(kubernetes, namespace, store, api, settings)
        finally:
            await api.close()


class BarePods:
    """The pod and claim that CodeHub would make, created as ``kubectl apply`` does, and watched until its port answers.

    No gate, no fence, no row: what the cluster itself takes. ``kubectl``: by that program; else by one call of the API,
    which no person makes, and which is the least a start can take.
    """

    def __init__(self, place: Place, *, kubectl: bool = False) -> None:
        self._place = place
        self._api = place.api
        self._kubectl = kubectl

    async def create_home(self, workspace_id: UUID) -> None:
        claim = home_claim(workspace_id, TOKEN, names=self._place.names, settings=self._place.settings)
        await self._create("persistentvolumeclaims", claim)

    async def start(self, workspace_id: UUID) -> None:
        place = self._place
        order = Order(workspace_id, TOKEN, "tiny", {}, place.settings.default_limits)
        its_image = place.settings.images["tiny"]
        manifest = workspace_pod(order, image=its_image, names=place.names, settings=place.settings)
        manifest["spec"].pop("schedulingGates", None)
        pod = read_pod(await self._create("pods", manifest))
        events = self._api.watch(
            self._path("pods"),
            version=pod.version,
            seconds=_WATCH_SECONDS,
            fieldSelector=f"metadata.name={pod.name}",
        )
        async with aclosing(events):
            while not (pod.is_running and pod.address is not None):
                _, found = await anext(events)
                pod = read_pod(found)
        assert pod.address is not None
        await until_port_answers(pod.address.host, pod.address.port)

    async def _create(self, kind: str, manifest: dict[str, Any]) -> dict[str, Any]:
        if not self._kubectl:
            return await self._api.create(self._path(kind), manifest)
        process = await asyncio.create_subprocess_exec(
            *(
                *self._place.kubernetes.kubectl,
                "--namespace",
                self._place.namespace,
                "apply",
                "--filename",
                "-",
            ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
        )
        await process.communicate(json.dumps(manifest).encode())
        assert process.returncode == 0
        return await self._api.get(self._path(kind, manifest["metadata"]["name"]))

    async def end(self, workspace_id: UUID) -> None:
        """Delete the pod, and return when it is gone."""
        name = self._place.names.pod(workspace_id)
        path = self._path("pods", name)
        pod = read_pod(await self._api.get(path))
        await self._api.delete(path, uid=pod.uid, version=pod.version)
        events = self._api.watch(
            self._path("pods"),
            version=pod.version,
            seconds=_WATCH_SECONDS,
            fieldSelector=f"metadata.name={name}",
        )
        async with aclosing(events):
            async for kind, _ in events:
                if kind == "DELETED":
                    return

    def remove_home(self, workspace_id: UUID) -> None:
        self._place.kubernetes.api.delete(
            self._path("persistentvolumeclaims", self._place.names.home(workspace_id))
        )

    def _path(self, kind: str, name: str = "") -> str:
        return namespaced(self._place.namespace, kind, name)


async def until_port_answers(host: str, port: int) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection(host, port)
        except OSError:
            await asyncio.sleep(0.005)
        else:
            writer.close()
            return


# --- a node without containers --------------------------------------------------------------------


FAKE_PLACEMENT = {
    "CODEHUB_KUBERNETES_NODE_SELECTOR": json.dumps({"codehub-bench": "fake"}),
    "CODEHUB_KUBERNETES_TOLERATIONS": json.dumps([{"operator": "Exists"}]),
}
"""Settings that send workspaces to the fake node."""


@asynccontextmanager
async def fake_node(place: Place) -> AsyncIterator[int]:
    """A node whose kubelet is this process: its pods are objects that say Running, without containers.

    They have this machine's address. Yields the port at which they seem to listen.
    """
    address = address_for_pods(place.kubernetes.api)
    server = await asyncio.start_server(_close, address, 0)
    port = server.sockets[0].getsockname()[1]
    labels = {"codehub-bench": "fake", "kubernetes.io/hostname": FAKE_NODE}
    taint = {"key": "codehub-bench", "effect": "NoSchedule"}
    node = {"metadata": {"name": FAKE_NODE, "labels": labels}, "spec": {"taints": [taint]}}
    await place.api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node})
    tasks = [
        asyncio.create_task(_report_ready(place.api, address)),
        asyncio.create_task(_run_pods(place, address)),
    ]
    try:
        yield port
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        server.close()
        path = namespaced(place.namespace, "pods")
        await asyncio.to_thread(place.kubernetes.api.delete, path, gracePeriodSeconds=0)
        await asyncio.to_thread(place.kubernetes.api.delete, f"/api/v1/nodes/{FAKE_NODE}")


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def _report_ready(api: ApiClient, address: str) -> None:
    amounts = {"cpu": "1000", "memory": "1Ti", "pods": "2000"}
    while True:
        ready = {"type": "Ready", "status": "True", "reason": "Bench", "lastHeartbeatTime": _now()}
        where = [{"type": "InternalIP", "address": address}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready], "addresses": where}
        await api.patch(f"/api/v1/nodes/{FAKE_NODE}/status", {"status": status})
        await asyncio.sleep(10)


async def _run_pods(place: Place, address: str) -> None:
    path = namespaced(place.namespace, "pods")
    version = await place.api.newest_version(path)
    fields = f"spec.nodeName={FAKE_NODE}"
    async with aclosing(
        place.api.watch(path, version=version, seconds=_WATCH_SECONDS, fieldSelector=fields)
    ) as events:
        async for kind, pod in events:
            one = f"{path}/{pod['metadata']['name']}"
            if kind == "DELETED":
                continue
            if "deletionTimestamp" in pod["metadata"]:
                await asyncio.to_thread(place.kubernetes.api.delete, one, gracePeriodSeconds=0)
            elif pod["status"].get("phase") == "Pending":
                with contextlib.suppress(Exception):  # it may be gone again
                    await place.api.patch(f"{one}/status", {"status": _running(pod, address)})


def _running(pod: Mapping[str, Any], address: str) -> dict[str, Any]:
    (container,) = pod["spec"]["containers"]
    state = {
        "name": container["name"],
        "image": container["image"],
        "imageID": "none",
        "ready": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": _now()}},
    }
    return {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "startTime": _now(),
        "conditions": [{"type": each, "status": "True"} for each in ("Initialized", "Ready", "PodScheduled")],
        "containerStatuses": [state],
    }


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
