"""The chart, installed: what an operator does with helm and kubectl, and what they see."""

import asyncio
import base64
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from tests.chart.helm import CHART, RELEASE, Helm, values_file
from tests.cluster.api import Json
from tests.cluster.fixtures import KubernetesUnderTest
from tests.cluster.waiting import until
from tests.support.docker_images import image
from tests.support.kubernetes_environment import HOME, PORT, address_for_pods

READY_SECONDS = 240
DNS = yaml.safe_load((CHART / "values.yaml").read_text())["workspaces"]["networkPolicy"]["dns"]
FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+)")


def common_values(kubernetes: KubernetesUnderTest, codehub_image: str) -> dict[str, Any]:
    """Small workspaces, images that are on the nodes already, and this machine for DNS as in ``tests/cluster``."""
    repository, _, tag = codehub_image.partition(":")
    tiny = {"image": image("tiny"), "port": PORT, "home": HOME, "pull_policy": "Never", "base_path": False}
    return {
        "image": {"repository": repository, "tag": tag, "pullPolicy": "Never"},
        "workspaces": {
            "images": {"tiny": tiny, "vscode": None, "jupyterlab": None},
            "defaultImage": "tiny",
            "storageClass": "network",
            "homeSize": "16m",
            "requests": {"cpus": 0.01, "memory": "16m"},
            "limits": {"memory": "64m"},
            "networkPolicy": {"dns": [*DNS, {"ipBlock": {"cidr": f"{address_for_pods(kubernetes.api)}/32"}}]},
        },
    }


@dataclass(frozen=True)
class Release:
    """One release of the chart in a namespace of its own."""

    kubernetes: KubernetesUnderTest
    namespace: str
    folder: Path

    def install(self, values: dict[str, Any]) -> str:
        """``helm install``, and until everything is ready; the notes."""
        return self._helm("install", values)

    def upgrade(self, values: dict[str, Any]) -> str:
        return self._helm("upgrade", values)

    def uninstall(self) -> None:
        Helm(self.kubernetes.kubeconfig).run(
            *("uninstall", RELEASE, "--namespace", self.namespace, "--wait", "--timeout", "120s")
        )

    def _helm(self, verb: str, values: dict[str, Any]) -> str:
        file = values_file(self.folder / "values.json", values)
        options = ("--namespace", self.namespace, "--values", file)
        waiting = ("--wait", "--timeout", f"{READY_SECONDS}s")
        return Helm(self.kubernetes.kubeconfig).run(verb, RELEASE, str(CHART), *options, *waiting)

    def kubectl(self, *arguments: str) -> str:
        command = [*self.kubernetes.kubectl, "--namespace", self.namespace, *arguments]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def doctor(self) -> str:
        """As the notes say."""
        return self.kubectl("exec", f"deployment/{RELEASE}", "-c", "codehub", "--", "codehub", "doctor")

    def path(self, kind: str, name: str = "", group: str = "/api/v1") -> str:
        return f"{group}/namespaces/{self.namespace}/{kind}{name and '/'}{name}"

    def secret(self, name: str, key: str) -> str:
        data = self.kubernetes.api.get(self.path("secrets", name))["data"]
        return base64.b64decode(data[key]).decode()

    def create_secret(self, name: str, **entries: str) -> None:
        self.kubernetes.api.create(
            self.path("secrets"), {"metadata": {"name": name}, "stringData": dict(entries)}
        )

    def pods(self, component: str) -> list[Json]:
        """Pods of CodeHub's that are not ending."""
        selector = f"app.kubernetes.io/component={component}"
        found = self.kubernetes.api.get(self.path("pods"), labelSelector=selector)["items"]
        return [each for each in found if "deletionTimestamp" not in each["metadata"]]

    def names(self, kind: str) -> set[str]:
        return {each["metadata"]["name"] for each in self.kubernetes.api.get(self.path(kind))["items"]}

    def write(self, workspace_id: str, name: str, content: str) -> None:
        script = 'printf %s "$2" > "$1"'
        self._in_workspace(workspace_id, "sh", "-c", script, "-", f"{HOME}/{name}", content)

    def read(self, workspace_id: str, name: str) -> str:
        return self._in_workspace(workspace_id, "cat", f"{HOME}/{name}")

    def _in_workspace(self, workspace_id: str, *command: str) -> str:
        return self.kubectl("exec", f"ws-{workspace_id}", "-c", "workspace", "--", *command)

    def wait_until_gone(self, kind: str, name: str) -> None:
        until(lambda: self.kubernetes.api.find(self.path(kind, name)) is None, f"{kind} {name} is gone")

    @asynccontextmanager
    async def forwarded(self, target: str = f"service/{RELEASE}", port: int = 80) -> AsyncIterator[str]:
        """``kubectl port-forward``, as the notes say; the address to open."""
        command = [*self.kubernetes.kubectl, "--namespace", self.namespace]
        process = await asyncio.create_subprocess_exec(
            *command,
            *("port-forward", target, f":{port}", "--address", "127.0.0.1"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(60):
                found = FORWARDING.search((await process.stdout.readline()).decode())
            assert found is not None
            yield f"http://127.0.0.1:{found[1]}"
        finally:
            process.kill()
            await process.wait()
