"""Workspaces on a Kubernetes cluster that a round may break, with two witnesses.

One reads every write of the API server (``cluster_witness``). One is on each volume: a workspace writes its mark into
its home again and again, and tells if it finds the mark of another one. Homes may be used by several pods of a node
(``ReadWriteOnce``), so nothing but CodeHub's fences keeps a second one away.
"""

import json
import ssl
import threading
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from os import getpid
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from tests.chaos.cluster_witness import ClusterWitness
from tests.cluster.binary import built_programs
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import KubernetesUnderTest, fresh_namespace
from tests.cluster.processes import Process
from tests.cluster.requirements import require_cluster_programs
from tests.support.docker_images import TWO_WRITERS, image
from tests.support.faulty_api_server import FaultyApiServer, faulty_api_server
from tests.support.kubernetes_environment import HOME, PORT, ensure_images, make_identity
from tests.support.object_stores import S3Server, rclone_server

_IMAGE = "writer"
_MANAGER_SECONDS = 0.3


class ServiceManager:
    """Starts parts of the cluster that ended by themselves, as systemd and a kubelet's static pods do.

    The scheduler ends itself when it finds its cache wrong, which happens after an API server was away.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let a fault end parts for a while."""
        with self._lock:
            yield

    def close(self) -> None:
        self._closed.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._closed.wait(_MANAGER_SECONDS):
            if not self._lock.acquire(blocking=False):
                continue
            try:
                self._start_what_ended()
            finally:
                self._lock.release()

    def _start_what_ended(self) -> None:
        living = [node.name for node in self._cluster.nodes.values() if node.exists]
        for part in self._cluster.parts:
            _, _, node = part.partition("-")
            if self._cluster.processes.find(part) is None and (not node or node in living):
                with suppress(RuntimeError):  # it ended at once: again in a moment
                    self._cluster.start_part(part)


class KubernetesSetup:
    image = _IMAGE

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        api_server: FaultyApiServer,
        *,
        store: S3Server,
        archives: Path,
        kubeconfig: Path,
    ) -> None:
        self.cluster = cluster
        self.api_server = api_server
        self.archives = archives
        self._namespace = namespace
        self._store = store
        self._kubeconfig = kubeconfig
        self._volumes = cluster.layout.path("volumes")
        self.witness = ClusterWitness(f"http://{cluster.layout.loopback_ip}:2379", namespace)
        self.manager = ServiceManager(cluster)
        self._told = 0

    def settings(self) -> Mapping[str, str]:
        images = {_IMAGE: {"image": image(_IMAGE), "port": PORT, "home": HOME, "pull_policy": "Never"}}
        return {
            **self._store.variables("bucket"),
            "ARCHIVE_URL": "s3://bucket/archives",
            "CODEHUB_RUNTIME": "kubernetes",
            "KUBECONFIG": str(self._kubeconfig),
            "CODEHUB_KUBERNETES_NAMESPACE": self._namespace,
            "CODEHUB_KUBERNETES_IMAGES": json.dumps(images),
            "CODEHUB_KUBERNETES_JOB_IMAGE": image("job"),
            "CODEHUB_KUBERNETES_STORAGE_CLASS": "network",
            "CODEHUB_KUBERNETES_ACCESS_MODE": "ReadWriteOnce",
            "CODEHUB_KUBERNETES_HOME_SIZE": "16m",
            "CODEHUB_KUBERNETES_LIMIT_MEMORY": "64m",
            "CODEHUB_KUBERNETES_REQUEST_MEMORY": "16m",
        }

    def home(self, workspace_id: str) -> Path:
        uid = self.witness.claims().get(f"ws-{workspace_id}-home", "none")
        return self._volumes / f"pvc-{uid}" / "home"

    def homes(self) -> list[Path]:
        """By their claims' names; the directories are named after the claims' uids."""
        return [Path(name) for name in self.witness.claims()]

    def servers(self) -> list[str]:
        return list(self._containers().values())

    def doubled(self) -> list[str]:
        """What the witnesses tell for the first time, and workspaces with two containers in two looks."""
        problems = self.witness.problems
        new, self._told = problems[self._told :], len(problems)
        new += [
            f"{each.parent.parent.name}: two writers" for each in self._volumes.glob(f"*/home/{TWO_WRITERS}")
        ]
        first = self._containers()
        suspects = {each for each, count in Counter(first.values()).items() if count > 1}
        if suspects:
            second = self._containers()
            still = Counter(first[key] for key in first.keys() & second.keys())
            new += [each for each in suspects if still[each] > 1]
        return new

    def _containers(self) -> dict[str, str]:
        """The namespace of processes of each pod with a live server → its workspace, as the kernel says."""
        found = {}
        ours = f"/{self.cluster.layout.cgroup}/".encode()
        for entry in Path("/proc").iterdir():
            if not entry.name.isdecimal():
                continue
            with suppress(OSError):
                variables = dict(
                    each.partition(b"=")[::2] for each in (entry / "environ").read_bytes().split(b"\0")
                )
                workspace = variables.get(b"CODEHUB_WORKSPACE_ID")
                if (
                    workspace
                    and b"CODEHUB_BASE_PATH" in variables
                    and ours in (entry / "cgroup").read_bytes()
                ):
                    found[str((entry / "ns" / "pid").readlink())] = workspace.decode()
        return found


@contextmanager
def own_cluster_setup(directory: Path) -> Iterator[KubernetesSetup]:
    """On a cluster of the round's own, which is removed afterwards."""
    require_cluster_programs()
    name = f"chaos-{getpid()}"
    cluster = Cluster.start(name, built_programs(), owner=Process.find(getpid()))
    try:
        with kubernetes_setup(directory, cluster=cluster) as setup:
            yield setup
    finally:
        cluster.stop()


@contextmanager
def kubernetes_setup(directory: Path, *, cluster: Cluster) -> Iterator[KubernetesSetup]:
    """On a cluster that may be broken, and that whoever brings it mends."""
    ensure_images(KubernetesUnderTest(cluster.kubeconfig, cluster.api, cluster))
    bucket = directory / "store" / "bucket"
    bucket.mkdir(parents=True)
    given = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]
    tls = ssl.create_default_context(cadata=b64decode(given["certificate-authority-data"]).decode())
    with (
        rclone_server(bucket.parent, address=cluster.layout.host_ip) as store,
        faulty_api_server(given["server"], tls) as api_server,
        fresh_namespace(cluster.api) as namespace,
    ):
        kubeconfig = directory / "kubeconfig"
        identity = make_identity(cluster.api, namespace, {"server": api_server.url})
        kubeconfig.write_text(json.dumps(identity))
        setup = KubernetesSetup(
            cluster, namespace, api_server, store=store, archives=bucket / "archives", kubeconfig=kubeconfig
        )
        try:
            yield setup
        finally:
            setup.manager.close()
            setup.witness.close()
