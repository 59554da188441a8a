"""Give claims their volumes: directories below the cluster's own. ``python -m tests.cluster.provisioner``.

Three storage classes, as installations have them:

- ``node-local``  bound when a pod is scheduled, to that pod's node; the default
- ``network``     bound at once, can be used on any node, can grow
- ``retained``    like ``network``, and the volume outlives its claim

A volume is named after its claim's uid, so doing it twice does it once. Dying in the middle leaves an empty directory
or a released volume; the next start finds both by looking at all claims and volumes first.
"""

import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.cluster.api import ApiError, Json, KubernetesApi

PROVISIONER = "codehub.test/directory"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"


@dataclass(frozen=True)
class StorageClass:
    name: str
    on_any_node: bool = True
    reclaim: str = "Delete"
    default: bool = False

    def document(self) -> Json:
        default = {"storageclass.kubernetes.io/is-default-class": "true"} if self.default else {}
        return {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": self.name, "annotations": default},
            "provisioner": PROVISIONER,
            "reclaimPolicy": self.reclaim,
            "volumeBindingMode": "Immediate" if self.on_any_node else "WaitForFirstConsumer",
            "allowVolumeExpansion": self.on_any_node,
        }


STORAGE_CLASSES = {
    each.name: each
    for each in (
        StorageClass("node-local", on_any_node=False, default=True),
        StorageClass("network"),
        StorageClass("retained", reclaim="Retain"),
    )
}


class Provisioner:
    """Two threads: one looks at claims, one at volumes."""

    def __init__(self, kubeconfig: Path, folder: Path) -> None:
        self._api = KubernetesApi(kubeconfig)
        self._folder = folder

    def run(self) -> None:
        self._folder.mkdir(exist_ok=True)
        volumes = threading.Thread(target=self._follow, args=(VOLUMES, self._reclaim), daemon=True)
        volumes.start()
        self._follow(CLAIMS, self._provision)

    def _follow(self, path: str, handle: Callable[[Json], None]) -> None:
        """Look at all, then at every change; begin anew whenever the API server is away."""
        while True:
            try:
                listed = self._api.get(path)
                for item in listed["items"]:
                    handle(item)
                with self._api.watch(path, listed["metadata"]["resourceVersion"]) as events:
                    for event in events:
                        if event["type"] == "ERROR":
                            break
                        if event["type"] in {"ADDED", "MODIFIED"}:
                            handle(event["object"])
            except (httpx.HTTPError, ApiError) as error:
                print(f"{path}: {error}", flush=True)
                time.sleep(0.2)

    def _provision(self, claim: Json) -> None:
        known = STORAGE_CLASSES.get(claim["spec"].get("storageClassName", ""))
        if known is None or "deletionTimestamp" in claim["metadata"]:
            return
        if "volumeName" in claim["spec"]:
            self._expand(claim)
            return
        node = claim["metadata"].get("annotations", {}).get(_SELECTED_NODE)
        if not known.on_any_node and node is None:
            return  # nobody uses it yet
        name = f"pvc-{claim['metadata']['uid']}"
        path = self._folder / name
        path.mkdir(mode=0o755, exist_ok=True)
        try:
            self._api.create(VOLUMES, _volume(claim, known, path, node))
        except ApiError as error:
            if error.status != httpx.codes.CONFLICT:
                raise

    def _expand(self, claim: Json) -> None:
        """A directory has no size: only the books have to be right."""
        wanted = claim["spec"]["resources"]["requests"]["storage"]
        capacity = {"capacity": {"storage": wanted}}
        if claim["status"].get("capacity", {}).get("storage") in {None, wanted}:
            return
        self._api.patch(f"{VOLUMES}/{claim['spec']['volumeName']}", {"spec": capacity})
        name, namespace = claim["metadata"]["name"], claim["metadata"]["namespace"]
        self._api.patch(
            f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}/status", {"status": capacity}
        )

    def _reclaim(self, volume: Json) -> None:
        metadata = volume["metadata"]
        ours = metadata.get("annotations", {}).get(_PROVISIONED_BY) == PROVISIONER
        released = volume["status"].get("phase") == "Released"
        if ours and released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
            shutil.rmtree(self._folder / metadata["name"], ignore_errors=True)
            self._api.delete(f"{VOLUMES}/{metadata['name']}")


def _volume(claim: Json, known: StorageClass, path: Path, node: str | None) -> Json:
    """A local volume: the kubelet gives it to the pod's group (fsGroup), which it does not do for hostPath."""
    host = {"key": "kubernetes.io/hostname"}
    term = host | ({"operator": "Exists"} if known.on_any_node else {"operator": "In", "values": [node]})
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": path.name, "annotations": {_PROVISIONED_BY: PROVISIONER}},
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": "Filesystem",
            "storageClassName": known.name,
            "persistentVolumeReclaimPolicy": known.reclaim,
            "local": {"path": str(path)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": claim["metadata"]["namespace"],
                "name": claim["metadata"]["name"],
                "uid": claim["metadata"]["uid"],
            },
        },
    }


if __name__ == "__main__":
    Provisioner(Path(sys.argv[1]), Path(sys.argv[2])).run()
