"""What one cluster is called, where it lives, and which addresses it has.

Several clusters can run beside each other: each has a slot of its own, and names and addresses follow from it.
"""

from dataclasses import dataclass
from pathlib import Path

HOME = Path("/var/lib/codehub-cluster")
"""Short, because sockets live below it (107 bytes), and where overlay file systems work."""

SLOTS = 16
NODES = ("node-1", "node-2")
PAUSE_IMAGE = "codehub.test/pause:1"


@dataclass(frozen=True)
class Layout:
    """Paths, names and addresses of a cluster. Decided once, when it starts."""

    name: str
    slot: int

    @property
    def root(self) -> Path:
        return HOME / self.name

    def path(self, *parts: str) -> Path:
        return self.root.joinpath(*parts)

    def node_path(self, node: str, *parts: str) -> Path:
        return self.root.joinpath(node, *parts)

    # --- names the kernel knows ---

    @property
    def bridge(self) -> str:
        return f"chk{self.slot}"

    def cable(self, node: str) -> str:
        """The host's end of a node's network cable."""
        return f"chk{self.slot}n{_number(node)}"

    @property
    def cgroup(self) -> str:
        return f"codehub-cluster-{self.name}"

    # --- addresses ---

    @property
    def network(self) -> str:
        return f"10.{200 + self.slot}.0.0/16"

    @property
    def host_ip(self) -> str:
        """Where nodes and pods reach this machine."""
        return f"10.{200 + self.slot}.0.1"

    @property
    def loopback_ip(self) -> str:
        """For what pods must not reach: etcd, and the health of controllers and scheduler."""
        return f"127.77.{self.slot}.1"

    @property
    def service_network(self) -> str:
        return f"10.{200 + self.slot}.128.0/17"

    @property
    def first_service_ip(self) -> str:
        """The API server's own, by which pods find it."""
        return f"10.{200 + self.slot}.128.1"

    def node_ip(self, node: str) -> str:
        return f"10.{200 + self.slot}.0.{10 + _number(node)}"

    def pod_network(self, node: str) -> str:
        return f"10.{200 + self.slot}.{16 * _number(node)}.0/20"

    @property
    def api_url(self) -> str:
        return f"https://{self.host_ip}:6443"


def _number(node: str) -> int:
    return NODES.index(node) + 1
