"""What a cluster needs of this machine. Without it tests are skipped, with a line that says how to get it."""

import os

import pytest

from tests.cluster.node import CNI_PROGRAMS
from tests.support.requirements import require_program


def require_cluster_programs() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root: only root can start nodes of a cluster. Or set CODEHUB_TEST_KUBECONFIG")
    for name, package in (
        ("containerd", "containerd"),
        ("ctr", "containerd"),
        ("gcc", "gcc libc6-dev"),
        ("ip", "iproute2"),
        ("iptables", "iptables"),
        ("nsenter", "util-linux"),
        ("runc", "runc"),
    ):
        require_program(name, package=package)
    if not (CNI_PROGRAMS / "bridge").exists():
        pytest.skip("needs network plug-ins: apt-get install containernetworking-plugins")
