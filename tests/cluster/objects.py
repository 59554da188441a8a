"""Kubernetes objects that tests of the cluster make, and waiting for them."""

from dataclasses import dataclass
from typing import Any

import httpx

from tests.cluster.api import Json, KubernetesApi
from tests.cluster.waiting import until

IMAGE = "codehub.test/busybox:1"
PORT = 8080


@dataclass(frozen=True)
class Namespace:
    """The objects of one namespace."""

    api: KubernetesApi
    name: str

    def path(self, kind: str, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.name}/{kind}{name and '/'}{name}"

    def create_pod(self, name: str, script: str, *, node: str | None = None, **spec: Any) -> None:
        """A pod that runs this shell script; a ``claim`` is mounted at /data; another ``image`` may be pulled."""
        container: Json = {"name": "main", "image": spec.pop("image", IMAGE), "args": [script]}
        if command := spec.pop("command", None):
            container["command"] = command
        if claim := spec.pop("claim", None):
            container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
            spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        if node is not None:
            spec["nodeSelector"] = {"kubernetes.io/hostname": node}
        spec = {
            "terminationGracePeriodSeconds": 0,
            "restartPolicy": "Never",
            "containers": [container],
        } | spec
        self.api.create(
            self.path("pods"), {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}
        )

    def create_claim(self, name: str, storage_class: str, *, mode: str = "ReadWriteOncePod") -> None:
        spec = {
            "storageClassName": storage_class,
            "accessModes": [mode],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        self.api.create(self.path("persistentvolumeclaims"), {"metadata": {"name": name}, "spec": spec})

    def create_service(self, name: str) -> None:
        """A name and an address for the pod of the same name."""
        spec = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": PORT}]}
        self.api.create(self.path("services"), {"metadata": {"name": name}, "spec": spec})

    def allow_only(self, server: str, client: str) -> None:
        """A network policy: nobody but this pod may connect to the server."""
        spec = {
            "podSelector": {"matchLabels": {"app": server}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": client}}}]}],
        }
        path = f"/apis/networking.k8s.io/v1/namespaces/{self.name}/networkpolicies"
        self.api.create(path, {"metadata": {"name": server}, "spec": spec})

    def wait_for_pod(self, name: str, phase: str = "Running") -> Json:
        def look() -> Json | None:
            found = self.api.find(self.path("pods", name))
            reached = None if found is None else found["status"]["phase"]
            if reached == "Failed" != phase:
                raise AssertionError(f"pod {name} failed: {self.log(name)}")
            return found if reached == phase else None

        return until(look, f"pod {name} is {phase}")

    def wait_for_claim(self, name: str) -> Json:
        def look() -> Json | None:
            found = self.api.find(self.path("persistentvolumeclaims", name))
            return found if found is not None and found["status"]["phase"] == "Bound" else None

        return until(look, f"claim {name} is bound")

    def delete_pod(self, name: str) -> None:
        """Returns when it is gone."""
        self.api.delete(self.path("pods", name))
        until(lambda: self.api.find(self.path("pods", name)) is None, f"pod {name} is gone")

    def log(self, name: str) -> str:
        return str(self.api.get(self.path("pods", name) + "/log").get("text", ""))


def answers(address: str) -> bool:
    """Whether the web server of a pod answers this machine."""
    try:
        return httpx.get(f"http://{address}:{PORT}/", timeout=2, trust_env=False).is_success
    except httpx.HTTPError:
        return False
