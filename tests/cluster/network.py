"""The network of a cluster: a bridge on this machine, a cable to each node, and the way to the world.

The packet filter rules of this machine carry the cluster's name as a comment, by which they are removed.
"""

import re
import shlex
import subprocess

from tests.cluster.processes import Process
from tests.cluster.settings import NODES, SLOTS, Layout


def claim_slot() -> int:
    """A slot that no other cluster uses: whoever makes its bridge has it.

    Dying right here leaves a bridge without a cluster, which ``leftovers`` removes.
    """
    for slot in range(SLOTS):
        if _works("ip", "link", "add", Layout("", slot).bridge, "type", "bridge"):
            return slot
    raise RuntimeError(f"{SLOTS} clusters run on this machine: python -m tests.cluster down --all")


def raise_bridge(layout: Layout) -> None:
    """Give the bridge its address, and let its nodes talk to each other and to the world."""
    _run("ip", "address", "add", f"{layout.host_ip}/24", "dev", layout.bridge)
    _run("ip", "link", "set", layout.bridge, "up")
    for table, rule in _rules(layout):
        _run("iptables", "--wait", "--table", table, "--insert", *rule)


def connect_node(layout: Layout, node: str, init: Process) -> None:
    """Lay the cable of a node and tell everybody the way to its pods."""
    cable = layout.cable(node)
    _works("ip", "link", "delete", cable)  # of a node that was lost, if the kernel has not removed it yet
    inside = ["nsenter", f"--target={init.pid}", "--net", "--"]
    _run("ip", "link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", str(init.pid))
    _run("ip", "link", "set", cable, "master", layout.bridge, "up")
    _run(*inside, "ip", "link", "set", "lo", "up")
    _run(*inside, "ip", "address", "add", f"{layout.node_ip(node)}/24", "dev", "eth0")
    _run(*inside, "ip", "link", "set", "eth0", "up")
    _run(*inside, "ip", "route", "add", "default", "via", layout.host_ip)
    _run("ip", "route", "replace", layout.pod_network(node), "via", layout.node_ip(node))
    for other in NODES:
        if other != node:
            _run(*inside, "ip", "route", "add", layout.pod_network(other), "via", layout.node_ip(other))


def cut_cable(layout: Layout, node: str) -> None:
    """Nothing reaches the node or leaves it; inside of it nobody is told."""
    _run("ip", "link", "set", layout.cable(node), "nomaster")


def mend_cable(layout: Layout, node: str) -> None:
    _run("ip", "link", "set", layout.cable(node), "master", layout.bridge)


def remove_network(layout: Layout) -> None:
    """Idempotent. Cables and routes go with their nodes and with the bridge."""
    for node in NODES:
        _works("ip", "link", "delete", layout.cable(node))
    _works("ip", "link", "delete", layout.bridge)
    remove_rules(layout.name)


def remove_rules(name: str) -> None:
    for table in ("filter", "nat"):
        listed = _run("iptables", "--wait", "--table", table, "--list-rules")
        for line in listed.splitlines():
            if _comment(name) in (words := shlex.split(line)) and words[0] == "-A":
                _works("iptables", "--wait", "--table", table, "--delete", *words[1:])


def bridges() -> list[int]:
    """The slots whose bridges exist."""
    listed = _run("ip", "-oneline", "link", "show", "type", "bridge")
    return [int(found) for found in re.findall(r"^\d+: chk(\d+):", listed, re.M)]


def _rules(layout: Layout) -> list[tuple[str, list[str]]]:
    comment = ["-m", "comment", "--comment", _comment(layout.name)]
    return [
        ("filter", ["FORWARD", "-i", layout.bridge, *comment, "-j", "ACCEPT"]),
        ("filter", ["FORWARD", "-o", layout.bridge, *comment, "-j", "ACCEPT"]),
        (
            "nat",
            ["POSTROUTING", "-s", layout.network, "!", "-o", layout.bridge, *comment, "-j", "MASQUERADE"],
        ),
    ]


def _comment(name: str) -> str:
    return f"codehub-cluster {name}"


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{shlex.join(command)}: {done.stderr.strip()}")
    return done.stdout


def _works(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
