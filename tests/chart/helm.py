"""Helm as people run it, on the chart of this repository."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.cluster.binary import built_helm

HERE = Path(__file__).parent
CHART = HERE.parents[1] / "deploy/helm/codehub"
PROFILES = {path.stem: path for path in sorted((HERE / "profiles").glob("*.yaml"))}
RELEASE, NAMESPACE = "codehub", "codehub"
MADE_SECRET = "made-when-installed"


class HelmError(Exception):
    """Helm refused; its words."""


@dataclass(frozen=True)
class Helm:
    """Speaks to the cluster of this kubeconfig, or (None) to none."""

    kubeconfig: Path | None = None

    def run(self, *arguments: str) -> str:
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig or os.devnull)}
        command = [str(built_helm()), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if done.returncode != 0:
            raise HelmError(f"{' '.join(command[1:])}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def template(self, *arguments: str, namespace: str = NAMESPACE) -> str:
        """What would be installed, as text. Passwords are made anew each time."""
        options = ("--namespace", namespace, "--kube-version", "1.36.0")
        return self.run("template", RELEASE, str(CHART), *options, *arguments)

    def lint(self, *arguments: str) -> str:
        return self.run("lint", "--strict", "--quiet", str(CHART), "--namespace", NAMESPACE, *arguments)


def values_of(profile: str) -> tuple[str, str]:
    return ("--values", str(PROFILES[profile]))


def snapshot_path(profile: str) -> Path:
    return HERE / "snapshots" / f"{profile}.yaml"


def render_snapshot(profile: str) -> str:
    """What the chart renders, with made passwords replaced: the same each time."""
    documents = [each for each in yaml.safe_load_all(Helm().template(*values_of(profile))) if each]
    for document in documents:
        if document["kind"] == "Secret":
            document["stringData"] = {
                key: MADE_SECRET if len(value) == 24 else value
                for key, value in document["stringData"].items()
            }
    return "---\n".join(yaml.safe_dump(each, width=110, sort_keys=True) for each in documents)


def values_file(path: Path, values: dict[str, Any]) -> str:
    """A file of values; YAML is a superset of JSON."""
    path.write_text(json.dumps(values))
    return str(path)
