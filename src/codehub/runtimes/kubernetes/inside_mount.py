"""Give a workspace's pod ``inside``, read-only at ``/.codehub``. Pure.

A workspace starts with an empty volume there, and so takes as long as without. When it is used for the first time an
ephemeral container of the same pod copies the program into it (``inside_copy``): ``inside`` copies itself, so its image
needs nothing else. An init container took half a second of every start, a second container a quarter, and both counted
in quotas for as long as the pod ran. (Mounting an image as a volume would spare the copy; clusters have that switched
on by default only since Kubernetes 1.35.)

The copying runs as another user than the workspace, because a pod's processes see each other: as the same user, its
writable mount could be reached through ``/proc``, and the program changed.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from codehub.runtimes.inside import DIRECTORY
from codehub.runtimes.kubernetes.names import Document

PROGRAM = "/inside"
"""Where images have it: CodeHub's own, or one of nothing else."""

_VOLUME = "codehub-inside"
_SIZE_LIMIT = "32Mi"
_NAME = "inside"
_MOUNT = {"name": _VOLUME, "mountPath": DIRECTORY}


def add_inside(pod: Document) -> None:
    """Add the volume, and its mount in the workspace's container."""
    spec = pod["spec"]
    spec["volumes"].append({"name": _VOLUME, "emptyDir": {"sizeLimit": _SIZE_LIMIT}})
    spec["containers"][0]["volumeMounts"].append({**_MOUNT, "readOnly": True})


def has_mount(pod: Document) -> bool:
    """Whether a workspace's pod has the mount. Pods of an older release, or without an image for it, have not."""
    return any(each.get("name") == _VOLUME for each in _items(pod, "spec", "volumes"))


def copying_container(image: str, *, user: int) -> Document:
    """The ephemeral container that copies it. Its name follows from its image: one attempt for each."""
    return {
        "name": f"{_NAME}-{sha256(image.encode()).hexdigest()[:8]}",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [PROGRAM, "install", DIRECTORY],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsUser": user + 1,
        },
        "volumeMounts": [dict(_MOUNT)],
    }


def is_copied(pod: Document) -> bool:
    """Whether it is in the pod. An earlier release's came by an init container, before the workspace began."""
    if any(each.get("name") == _NAME for each in _items(pod, "spec", "initContainers")):
        return True
    return any(
        str(each.get("name")).startswith(f"{_NAME}-") and terminated_of(each).get("exitCode") == 0
        for each in _items(pod, "status", "ephemeralContainerStatuses")
    )


def is_asked_for(pod: Document, name: str) -> bool:
    """Whether the pod has that ephemeral container, whatever became of it."""
    return any(each.get("name") == name for each in _items(pod, "spec", "ephemeralContainers"))


def copying_status(pod: Document, name: str) -> Mapping[str, Any]:
    """Status of that ephemeral container; empty: not known yet."""
    found = _items(pod, "status", "ephemeralContainerStatuses")
    return next((each for each in found if each.get("name") == name), {})


def terminated_of(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """How a container ended; empty: it has not."""
    return (status.get("state") or {}).get("terminated") or {}


def _items(pod: Document, part: str, field: str) -> Iterator[Mapping[str, Any]]:
    yield from (pod.get(part) or {}).get(field) or ()
