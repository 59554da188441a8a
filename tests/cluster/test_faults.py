"""A cluster can be broken and mended, and leaves nothing behind, even if its starter is killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tests.cluster.binary import built_programs
from tests.cluster.cluster import REPOSITORY, START_SECONDS, Cluster
from tests.cluster.control_plane import NODE_GRACE_SECONDS
from tests.cluster.ownership import Deed
from tests.cluster.processes import Process, Processes
from tests.cluster.requirements import require_cluster_programs
from tests.cluster.settings import HOME, NODES
from tests.cluster.waiting import until

pytestmark = [
    pytest.mark.needs_built_images,
    pytest.mark.timeout(1200),
    pytest.mark.xdist_group("cluster-faults"),
]


def test_node_that_is_cut_off_is_not_ready_until_it_is_back(breakable_kubernetes: Cluster) -> None:
    cluster = breakable_kubernetes
    cluster.partition("node-2")
    until(lambda: not cluster.is_ready("node-2"), "node-2 is not ready", seconds=4 * NODE_GRACE_SECONDS)
    assert cluster.is_ready("node-1")
    cluster.heal("node-2")
    cluster.wait_until_ready()


def test_lost_node_comes_back(breakable_kubernetes: Cluster) -> None:
    cluster = breakable_kubernetes
    lost = [cluster.processes.get(f"{kind}-node-2") for kind in ("containerd", "kubelet")]
    cluster.lose("node-2")
    until(lambda: not any(map(is_alive, lost)), "nothing runs on node-2")
    assert cluster.processes.get("kubelet-node-1").alive
    cluster.mend()
    assert cluster.is_ready("node-2")
    assert cluster.processes.get("kubelet-node-2") not in lost


def test_api_server_comes_back_with_what_it_knew(breakable_kubernetes: Cluster) -> None:
    cluster = breakable_kubernetes
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "remembered"}})
    for part in ("apiserver", "etcd"):
        cluster.kill(part)
        assert not cluster.is_ready("node-1")  # nobody answers
    cluster.mend()
    assert cluster.api.find("/api/v1/namespaces/remembered") is not None


def test_frozen_api_server_does_not_answer(breakable_kubernetes: Cluster) -> None:
    breakable_kubernetes.freeze("apiserver")
    with pytest.raises(httpx.TimeoutException):
        httpx.get(f"{breakable_kubernetes.layout.api_url}/livez", timeout=1, verify=False, trust_env=False)
    breakable_kubernetes.thaw("apiserver")
    breakable_kubernetes.wait_until_ready()


STARTER = """
import os, signal, sys
from tests.cluster.binary import built_programs
from tests.cluster.cluster import Cluster
from tests.cluster.processes import Process
cluster = Cluster.start(sys.argv[1], built_programs(), owner=Process.find(os.getpid()))
cluster.layout.path("complete").touch()
signal.pause()
"""


@pytest.mark.parametrize("moment", ["processes/kubelet-node-2.json", "complete"])
def test_killed_starter_leaves_nothing_to_the_next(moment: str) -> None:
    require_cluster_programs()
    built_programs()
    before = written_outside()
    name = f"killed-{os.getpid()}"
    starter = subprocess.Popen([sys.executable, "-c", STARTER, name], cwd=REPOSITORY)
    until((HOME / name / moment).exists, f"there is {moment}", seconds=START_SECONDS)
    deed, processes = Deed.get(name), Processes(HOME / name)
    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    running = list(processes.everything())
    assert len(running) > len(NODES)
    assert left_on_machine(deed)
    Cluster.remove_leftovers()
    assert not any(map(is_alive, running))
    assert left_on_machine(deed) == []
    assert written_outside() == before


def written_outside() -> set[str]:
    """Where Kubernetes and containerd write to if nobody stops them."""
    usual = ("/etc/cni", "/usr/libexec/kubernetes", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods")
    return {each for each in usual if Path(each).exists()}


def is_alive(process: Process) -> bool:
    return process.alive


def left_on_machine(deed: Deed) -> list[str]:
    """Whatever on this machine names this cluster."""
    commands = (
        ("ip", "-oneline", "link"),
        ("ip", "route"),
        ("iptables", "--wait", "--list-rules"),
        ("iptables", "--wait", "--table", "nat", "--list-rules"),
        ("ps", "-eo", "args"),
        ("find", "/sys/fs/cgroup", "-maxdepth", "2", "-name", "codehub-cluster-*"),
        ("cat", "/proc/self/mountinfo"),
        ("find", str(HOME), "-maxdepth", "1"),
    )
    said = [subprocess.run(each, capture_output=True, text=True, check=False).stdout for each in commands]
    words = (f" {deed.layout.bridge}", deed.name)
    return [line for text in said for line in text.splitlines() if any(word in line for word in words)]
