"""A node: namespaces held by one process, with a containerd and a kubelet of its own inside.

``init`` is process 1 of the node. When it dies the kernel kills everything on the node, containers included, and takes
its mounts and its network away. Directories that Kubernetes writes to wherever it is told to live (/var/lib/kubelet,
/var/lib/cni, /var/log/pods, /run) are a file system in memory here, which goes with the rest.
"""

import json
from pathlib import Path

from tests.cluster.binary import Programs
from tests.cluster.dns import DOMAIN
from tests.cluster.machine import make_cgroup
from tests.cluster.network import connect_node
from tests.cluster.processes import Process, Processes
from tests.cluster.settings import HOME, PAUSE_IMAGE, Layout

CNI_PROGRAMS = Path("/usr/lib/cni")
LEASE_SECONDS = 8
PARTS = ("containerd", "kubelet", "proxy", "policies")
QUEUE = 100
"""Of the packets that network policies judge. While nobody listens, they pass."""

_SETUP = f"""
set -e
# A container of this machine's own engine must not be held by a mount that was copied here.
awk '$2 ~ "^(/run|/var/run|/var/lib)/" && $2 !~ "^{HOME}" {{ print $2 }}' /proc/self/mounts | sort -r |
  while read -r mount; do umount --lazy "$mount"; done
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=755 tmpfs /var/log
mkdir /run/home
mount --bind {HOME} /run/home
mount -t tmpfs -o mode=755 tmpfs /var/lib
mkdir {HOME}
mount --move /run/home {HOME}
mount --make-rshared /
hostname "$1"
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables
iptables -I FORWARD -m conntrack --ctstate NEW -j NFQUEUE --queue-num {QUEUE} --queue-bypass
exec "$2"
"""


class Node:
    """Starts and ends the parts of one node. Keeps nothing in memory: any process can take over."""

    def __init__(self, layout: Layout, name: str, *, programs: Programs) -> None:
        self.name = name
        self._layout = layout
        self._programs = programs
        self._processes = Processes(layout.root)
        self.socket = layout.node_path(name, "containerd.sock")

    def part(self, kind: str) -> str:
        """What this node's ``init``, ``containerd``, ``kubelet`` or ``proxy`` is called."""
        return f"{kind}-{self.name}"

    def start(self) -> None:
        """Start the namespaces, containerd and the kubelet, without waiting for any."""
        self._layout.node_path(self.name).mkdir(exist_ok=True)
        self._write_settings()
        make_cgroup(f"{self._layout.cgroup}/{self.name}")
        connect_node(self._layout, self.name, self._start_init())
        self.start_containerd()
        self.start_kubelet()

    @property
    def exists(self) -> bool:
        return self._processes.find(self.part("init")) is not None

    def lose(self) -> None:
        """End everything that runs on this node at once, as when its power fails. Its disk stays."""
        self._processes.stop(self.part("init"))

    def start_containerd(self) -> None:
        config = self._layout.node_path(self.name, "containerd.toml")
        self._start("containerd", ["containerd", f"--config={config}"])

    def start_kubelet(self) -> None:
        path = self._layout.node_path(self.name, "kubelet")
        command = [
            *(str(self._programs.kubernetes), "kubelet"),
            f"--config={self._layout.node_path(self.name, 'kubelet.json')}",
            f"--kubeconfig={self._layout.path('certificates', f'{self.name}.kubeconfig')}",
            f"--hostname-override={self.name}",
            f"--node-ip={self._layout.node_ip(self.name)}",
            f"--root-dir={path}",
            f"--cert-dir={path}/pki",
        ]
        self._start("kubelet", command)

    def start_proxy(self) -> None:
        """Let pods of this node reach services. It and ``policies`` need an API server that answers."""
        config = self._layout.node_path(self.name, "proxy.json")
        self._start("proxy", [str(self._programs.kubernetes), "proxy", f"--config={config}"])

    def start_policies(self) -> None:
        """Enforce network policies for the pods of this node."""
        kubeconfig = self._layout.path("certificates", "policies.kubeconfig")
        flags = [f"-kubeconfig={kubeconfig}", f"-node={self.name}", f"-queue={QUEUE}"]
        self._start("policies", [str(self._programs.policies), *flags])

    def _start_init(self) -> Process:
        command = [
            *("unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--mount-proc"),
            "--kill-child=SIGKILL",
            *("sh", "-c", _SETUP, "sh", self.name, str(self._layout.path("pause"))),
        ]
        return self._processes.start_forking(self.part("init"), command, becomes="pause")

    def _start(self, kind: str, command: list[str]) -> None:
        self._processes.start(self.part(kind), command, inside=self._processes.get(self.part("init")))

    def _write_settings(self) -> None:
        folder = self._layout.node_path(self.name)
        (folder / "cni").mkdir(exist_ok=True)
        (folder / "cni" / "10-pods.conflist").write_text(json.dumps(self._cni()))
        (folder / "containerd.toml").write_text(self._containerd())
        (folder / "kubelet.json").write_text(json.dumps(self._kubelet(), indent=1))
        (folder / "proxy.json").write_text(json.dumps(self._proxy(), indent=1))

    def _cni(self) -> dict[str, object]:
        pods = {"subnet": self._layout.pod_network(self.name)}
        addresses = {
            "type": "host-local",
            "ranges": [[pods]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": str(self._layout.node_path(self.name, "addresses")),
        }
        bridge = {
            "type": "bridge",
            "bridge": "pods",
            "isGateway": True,
            "hairpinMode": True,
            "ipam": addresses,
        }
        return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}

    def _containerd(self) -> str:
        folder = self._layout.node_path(self.name)
        return f"""
version = 2
root = "{folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "{self.socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
  bin_dir = "{CNI_PROGRAMS}"
  conf_dir = "{folder}/cni"
[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "{self._layout.path("registries")}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = false
"""

    def _kubelet(self) -> dict[str, object]:
        authority = self._layout.path("certificates", "authority.crt")
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": self._layout.node_ip(self.name),
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(authority)},
            },
            "authorization": {"mode": "Webhook"},
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            # The machine may have control groups of version 1, swap, and no systemd.
            "failCgroupV1": False,
            "failSwapOn": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{self._layout.cgroup}/{self.name}",
            "makeIPTablesUtilChains": False,
            "volumePluginDir": str(self._layout.node_path(self.name, "plugins")),
            "podLogsDir": str(self._layout.node_path(self.name, "pod-logs")),
            "clusterDNS": [self._layout.host_ip],
            "clusterDomain": DOMAIN,
            "maxPods": 500,
            "serializeImagePulls": False,
            "eventRecordQPS": 0,
            "kubeAPIQPS": 100,
            "kubeAPIBurst": 200,
            "nodeLeaseDurationSeconds": LEASE_SECONDS,
            # The disk is this machine's: its being full is no reason to evict pods or to remove images.
            "evictionHard": {
                "memory.available": "100Mi",
                "nodefs.available": "1%",
                "imagefs.available": "1%",
            },
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
        }

    def _proxy(self) -> dict[str, object]:
        kubeconfig = self._layout.path("certificates", "proxy.kubeconfig")
        return {
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "iptables",
            "hostnameOverride": self.name,
            "clientConnection": {"kubeconfig": str(kubeconfig)},
            "detectLocalMode": "BridgeInterface",
            "detectLocal": {"bridgeInterface": "pods"},
            # The machine's own settings, which are not this node's to change.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        }
