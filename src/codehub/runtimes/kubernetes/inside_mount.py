"""Give a workspace's pod ``inside``, read-only at ``/.codehub``. Pure.

An init container copies the program from its image into a volume of the pod: ``inside`` copies itself, so the image
needs nothing else. It is a static program of 5 MB that ends at once; the image is on the node already where CodeHub's
own is used for storage jobs. (Mounting an image as a volume would spare the copy; clusters have that switched on by
default only since Kubernetes 1.35.)
"""

from typing import Any

from codehub.runtimes.inside import DIRECTORY
from codehub.runtimes.kubernetes.names import Document

PROGRAM = "/inside"
"""Where images have it: CodeHub's own, or one of nothing else."""

CONTAINER = "inside"
_VOLUME = "codehub-inside"
_SIZE_LIMIT = "32Mi"


def add_inside(pod: Document, image: str, *, security: Document) -> None:
    """Add the init container, its volume, and the mount of the workspace's container."""
    spec = pod["spec"]
    container = spec["containers"][0]
    mount: dict[str, Any] = {"name": _VOLUME, "mountPath": DIRECTORY}
    spec["volumes"].append({"name": _VOLUME, "emptyDir": {"sizeLimit": _SIZE_LIMIT}})
    spec["initContainers"] = [
        {
            "name": CONTAINER,
            "image": image,
            "imagePullPolicy": "IfNotPresent",
            "command": [PROGRAM, "install", DIRECTORY],
            # Those of the workspace, which begins when this has ended: the pod needs no more than without it.
            "resources": container["resources"],
            "securityContext": {**security, "readOnlyRootFilesystem": True},
            "volumeMounts": [mount],
        }
    ]
    container["volumeMounts"].append({**mount, "readOnly": True})


def has_inside(pod: Document) -> bool:
    """Whether a workspace's pod has the mount. Pods of an older release have not."""
    volumes = (pod.get("spec") or {}).get("volumes") or ()
    return any(each.get("name") == _VOLUME for each in volumes)
