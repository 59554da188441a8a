"""``python -m tests.cluster build | up | status | kubeconfig | kubectl … | import FILE | down``: a cluster by hand."""

import argparse
import os
import sys
import time
from pathlib import Path

import pytest

from tests.cluster import requirements
from tests.cluster.binary import built_helm, built_programs
from tests.cluster.cluster import Cluster
from tests.cluster.processes import Process

DEFAULT = "default"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("--name", default=DEFAULT, help="several clusters can run beside each other")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("build", help="build Kubernetes and Helm, which takes minutes the first time")
    actions.add_parser("up", help="start a cluster and leave it running")
    actions.add_parser("down", help="stop it and remove everything it left")
    actions.add_parser("status", help="say which of its parts run")
    actions.add_parser("kubeconfig", help="print where its kubeconfig is")
    actions.add_parser("import", help="bring a docker-save archive to every node").add_argument(
        "file", type=Path
    )
    actions.add_parser("kubectl", help="run kubectl as its administrator", add_help=False)
    arguments, rest = parser.parse_known_args()
    if rest and arguments.action != "kubectl":
        parser.error(f"unknown arguments: {' '.join(rest)}")
    try:
        _ACTIONS[arguments.action](arguments, rest)
    except pytest.skip.Exception as missing:
        sys.exit(str(missing))


def _build(_: argparse.Namespace, __: list[str]) -> None:
    programs = built_programs()
    print(programs.kubernetes, programs.policies, built_helm())


def _up(arguments: argparse.Namespace, _: list[str]) -> None:
    requirements.require_cluster_programs()
    if Cluster.find(arguments.name) is not None:
        sys.exit(f"it runs already: python -m tests.cluster --name {arguments.name} status")
    programs = built_programs()
    began = time.monotonic()
    cluster = Cluster.start(arguments.name, programs, owner=Process.find(os.getpid()))
    cluster.disown()
    print(f"up after {time.monotonic() - began:.1f} s; export KUBECONFIG={cluster.kubeconfig}")


def _down(arguments: argparse.Namespace, _: list[str]) -> None:
    if (cluster := Cluster.find(arguments.name)) is not None:
        cluster.stop()


def _status(arguments: argparse.Namespace, _: list[str]) -> None:
    cluster = _get(arguments)
    for part in cluster.parts:
        process = cluster.processes.find(part)
        print(f"{part:20} {'does not run' if process is None else f'process {process.pid}'}")
    for node in cluster.nodes:
        print(f"{node:20} {'ready' if cluster.is_ready(node) else 'not ready'}")


def _kubeconfig(arguments: argparse.Namespace, _: list[str]) -> None:
    print(_get(arguments).kubeconfig)


def _import(arguments: argparse.Namespace, _: list[str]) -> None:
    _get(arguments).import_image(arguments.file)


def _kubectl(arguments: argparse.Namespace, rest: list[str]) -> None:
    cluster = _get(arguments)
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    program = cluster.programs.kubernetes
    os.execve(program, [str(program), "kubectl", *rest], environment)


def _get(arguments: argparse.Namespace) -> Cluster:
    if (cluster := Cluster.find(arguments.name)) is None:
        sys.exit("no cluster runs: python -m tests.cluster up")
    return cluster


_ACTIONS = {
    "build": _build,
    "up": _up,
    "down": _down,
    "status": _status,
    "kubeconfig": _kubeconfig,
    "kubectl": _kubectl,
    "import": _import,
}

if __name__ == "__main__":
    main()
