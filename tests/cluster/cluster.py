"""One cluster: start it, break it, mend it, stop it.

A ``Cluster`` keeps nothing in memory that is not on disk too: ``Cluster.find(name)`` in another process can break and
stop what this one started. ``stop`` removes whatever is there, complete or not, so it is also what cleans up after a
starter that was killed.
"""

import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx

from tests.cluster import control_plane, machine, network
from tests.cluster.api import ApiError, Json, KubernetesApi
from tests.cluster.binary import Programs
from tests.cluster.images import build_pause, pause_archive
from tests.cluster.node import PARTS as NODE_PARTS
from tests.cluster.node import Node
from tests.cluster.ownership import Deed, all_deeds, claim, forget_unfinished_claims, machine_lock
from tests.cluster.processes import Process, Processes
from tests.cluster.provisioner import CLASSES, STORAGE_CLASSES
from tests.cluster.settings import NODES, PAUSE_IMAGE, Layout
from tests.cluster.waiting import until

START_SECONDS = 180
"""Ten on an idle machine."""

STORE_AND_API = ("etcd", "apiserver")
"""The others give up if these do not answer when they start."""

OUR_PARTS = ("provisioner", "dns")
REPOSITORY = Path(__file__).resolve().parents[2]


class Cluster:
    """Parts are named ``etcd``, ``apiserver``, ``controllers``, ``scheduler``, ``provisioner``,
    ``containerd-node-1``, ``kubelet-node-1`` and so on.
    """

    def __init__(self, layout: Layout, programs: Programs) -> None:
        self.layout = layout
        self.programs = programs
        self.processes = Processes(layout.root)
        self.nodes = {name: Node(layout, name, programs=programs) for name in NODES}
        self.kubeconfig = layout.path("certificates", "admin.kubeconfig")
        self._own_identity = layout.path("certificates", "provisioner.kubeconfig")
        self._api: KubernetesApi | None = None

    @classmethod
    def find(cls, name: str) -> "Cluster | None":
        """The cluster of this name, if one was started and not stopped, whatever became of it."""
        deed = Deed.find(name)
        return None if deed is None else cls(deed.layout, deed.programs)

    @classmethod
    def start(cls, name: str, programs: Programs, *, owner: Process | None) -> "Cluster":
        """Returns when pods run on every node. Stops the clusters of owners that have ended, first.

        Dying in here leaves a leftover for the next start: its name and its owner are on disk before anything runs.
        """
        cls.remove_leftovers()
        with machine_lock():
            deed = claim(name, programs, owner)
        cluster = cls(deed.layout, programs)
        try:
            cluster._start()
        except BaseException:
            cluster.stop()
            raise
        return cluster

    @classmethod
    def remove_leftovers(cls) -> None:
        """Stop clusters whose owners have ended without stopping them."""
        with machine_lock():
            for deed in all_deeds():
                if deed.is_leftover:
                    cls(deed.layout, deed.programs)._remove()
            forget_unfinished_claims()

    def disown(self) -> None:
        """Let it run when this process ends."""
        replace(Deed.get(self.layout.name), owner=None).write()

    @property
    def api(self) -> KubernetesApi:
        """The API as its administrator."""
        if self._api is None:
            self._api = KubernetesApi(self.kubeconfig)
        return self._api

    # --- images ---

    def import_image(self, archive: Path) -> None:
        """Bring the images of a ``docker save`` archive to every node."""
        for node in self.nodes.values():
            self._ctr(node, "images", "import", str(archive))

    def trust_registry(self, host: str) -> None:
        """Let nodes pull from ``host:port`` without encryption."""
        folder = self.layout.path("registries", host)
        folder.mkdir(exist_ok=True)
        (folder / "hosts.toml").write_text(f'server = "http://{host}"\n[host."http://{host}"]\n')

    def _ctr(self, node: Node, *arguments: str) -> None:
        command = ["ctr", "--address", str(node.socket), "--namespace", "k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")

    # --- faults ---

    def kill(self, part: str) -> None:
        """kill -9. Containers outlive their containerd and their kubelet."""
        self.processes.stop(part)

    def freeze(self, part: str) -> None:
        """SIGSTOP: it takes connections and does not answer."""
        self.processes.get(part).send(signal.SIGSTOP)

    def thaw(self, part: str) -> None:
        self.processes.get(part).send(signal.SIGCONT)

    def restart(self, part: str) -> None:
        """End it in order if it runs, and start it again."""
        self.processes.stop(part, signal.SIGTERM)
        self.start_part(part)

    def partition(self, node: str) -> None:
        """Cut a node off from this machine and from the other nodes. What runs on it runs on."""
        network.cut_cable(self.layout, node)

    def heal(self, node: str) -> None:
        network.mend_cable(self.layout, node)

    def lose(self, node: str) -> None:
        """End everything on a node at once, as when its power fails. ``mend`` starts it again with what it stored."""
        self.nodes[node].lose()

    def mend(self) -> None:
        """Undo every fault; returns when all nodes have reported since, and are ready."""
        began = datetime.now(UTC)
        until(self._api_is_back, "the API server is ready", seconds=START_SECONDS)
        for name, node in self.nodes.items():
            if node.exists:
                self.heal(name)
            else:
                node.start()
        until(lambda: self._is_whole_since(began), "every node has reported", seconds=START_SECONDS)

    def _api_is_back(self) -> bool:
        self._start_what_does_not_run(STORE_AND_API)
        return self._api_is_ready()

    def _is_whole_since(self, moment: datetime) -> bool:
        """Whether all parts run and all nodes are well. A part may end itself after an API server was away."""
        self._start_what_does_not_run(self.parts)
        try:
            return self._all_reported_since(moment) and all(map(self.is_ready, NODES))
        except (httpx.HTTPError, ApiError):
            return False

    def _all_reported_since(self, moment: datetime) -> bool:
        """A node that was away counts as ready until its grace is over: look at its lease.

        One that was deleted has none until it has registered again.
        """
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
        found = [self.api.find(f"{leases}/{node}") for node in NODES]
        return all(
            each is not None and datetime.fromisoformat(each["spec"]["renewTime"]) > moment for each in found
        )

    def _start_what_does_not_run(self, parts: Sequence[str]) -> None:
        for part in parts:
            process = self.processes.find(part)
            if process is None:
                self.start_part(part)
            else:
                process.send(signal.SIGCONT)

    # --- parts ---

    @property
    def parts(self) -> list[str]:
        """Every part that can be killed and started, in the order they are started."""
        of_nodes = [node.part(kind) for node in self.nodes.values() for kind in NODE_PARTS]
        return [*control_plane.PARTS, *OUR_PARTS, *of_nodes]

    def start_part(self, part: str) -> None:
        """Start a part that does not run, without waiting until it answers."""
        if part in control_plane.PARTS:
            self.processes.start(part, control_plane.command(part, self.layout, self.programs.kubernetes))
        elif part == "provisioner":
            self._start_module(part, str(self._own_identity), str(self.layout.path("volumes")))
        elif part == "dns":
            self._start_module(part, self.layout.host_ip, str(self._own_identity))
        else:
            kind, _, name = part.partition("-")
            node = self.nodes[name]
            {
                "containerd": node.start_containerd,
                "kubelet": node.start_kubelet,
                "proxy": node.start_proxy,
                "policies": node.start_policies,
            }[kind]()

    def wait_until_ready(self, *, seconds: float = START_SECONDS) -> None:
        """Wait until the API answers and every node is ready."""
        until(self._api_is_ready, "the API server is ready", seconds=seconds)
        until(self._nodes_are_ready, "every node is ready", seconds=seconds)

    def is_ready(self, node: str) -> bool:
        """Whether the control plane believes that this node is well."""
        try:
            found = self.api.find(f"/api/v1/nodes/{node}")
        except (httpx.HTTPError, ApiError):
            return False
        conditions = [] if found is None else found["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    # --- the end ---

    def stop(self) -> None:
        """Leave nothing behind. Idempotent, and good for a cluster that never came up."""
        with machine_lock():
            self._remove()

    def close(self) -> None:
        """Let go of it without stopping it."""
        if self._api is not None:
            self._api.close()
            self._api = None

    def _remove(self) -> None:
        self.close()
        while running := list(self.processes.everything()):
            for process in running:
                process.send(signal.SIGKILL)
            for process in running:
                process.wait_for_end()
        network.remove_network(self.layout)
        machine.remove_cgroups(self.layout.cgroup)
        shutil.rmtree(self.layout.root, ignore_errors=True)
        machine.restore_kernel_settings()

    # --- the beginning ---

    def _start(self) -> None:
        network.raise_bridge(self.layout)
        control_plane.write_identities(self.layout)
        pause = self.layout.path("pause")
        build_pause(pause)
        self.layout.path("registries").mkdir()
        for part in STORE_AND_API:
            self.start_part(part)
        for node in self.nodes.values():
            node.start()
        archive = self.layout.path("pause.tar")
        archive.write_bytes(pause_archive(pause, PAUSE_IMAGE))
        for node in self.nodes.values():
            until(node.socket.exists, f"containerd of {node.name} listens")
        self.import_image(archive)
        until(self._api_is_ready, "the API server is ready", seconds=START_SECONDS)
        for each in STORAGE_CLASSES.values():
            self.api.create(CLASSES, each.document())
        self._start_what_does_not_run(self.parts)
        self.wait_until_ready()
        self._run_a_pod_on_each_node()

    def _start_module(self, part: str, *arguments: str) -> None:
        """A part that is Python of ours, and speaks as the identity ``provisioner``."""
        command = [sys.executable, "-m", f"tests.cluster.{part}", *arguments]
        self.processes.start(part, ["env", f"PYTHONPATH={REPOSITORY}", *command])

    def _api_is_ready(self) -> bool:
        for part in STORE_AND_API:
            self.processes.get(part)
        try:
            self.api.get("/readyz")
        except (httpx.HTTPError, ApiError):
            return False
        return True

    def _nodes_are_ready(self) -> bool:
        for part in self.parts:
            self.processes.get(part)
        return all(map(self.is_ready, NODES))

    def _run_a_pod_on_each_node(self) -> None:
        """Nodes say that they are ready before pods can be made: their namespace has no service account yet."""
        pods = "/api/v1/namespaces/default/pods"
        until(
            lambda: self.api.find("/api/v1/namespaces/default/serviceaccounts/default") is not None,
            "there is a service account",
        )
        for node in NODES:
            self.api.create(pods, _pause_pod(f"first-{node}", node))
        until(lambda: all(map(self._first_pod_runs, NODES)), "a pod runs on each node")
        for node in NODES:
            self.api.delete(f"{pods}/first-{node}", gracePeriodSeconds=0)

    def _first_pod_runs(self, node: str) -> bool:
        return bool(
            self.api.get(f"/api/v1/namespaces/default/pods/first-{node}")["status"]["phase"] == "Running"
        )


def _pause_pod(name: str, node: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "nodeName": node,
            "automountServiceAccountToken": False,
            "containers": [{"name": "pause", "image": PAUSE_IMAGE, "imagePullPolicy": "Never"}],
        },
    }
