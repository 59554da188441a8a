"""Build the objects of a workspace for the API server. Pure.

Every pod passes the PodSecurity level ``restricted``: an ordinary user, no capabilities, no new privileges, the default
seccomp profile, no service-account token, no host namespace. The API server never restarts a pod: the Reconciler
decides. All pods share their processes with the pause container, which reaps orphaned ones.

A home is the folder ``home`` of its volume. The folder, not the root of the volume, because the root may hold what is
the file system's own (``lost+found``), and because a folder can be replaced by one rename when a home is restored.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit
from uuid import UUID

from codehub.runtimes.base import FencingToken, ResourceLimits, StorageJob, StorageKind
from codehub.runtimes.kubernetes import names as labels
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.runtimes.kubernetes.inside_mount import add_inside
from codehub.runtimes.kubernetes.inventory import GATE
from codehub.runtimes.kubernetes.names import (
    CONTAINER,
    JOB_CONTAINER,
    Document,
    Names,
    ObjectRole,
    token_text,
)
from codehub.runtimes.kubernetes.patches import merged
from codehub.runtimes.kubernetes.settings import JobSettings, KubernetesSettings, Placement

VOLUME = "/volume"
HOME_FOLDER = "home"
_ORDER = "/order"
_ORDER_FILE = "order.json"
_JOB_GRACE_SECONDS = 5
_Amount = TypeVar("_Amount", int, float)


@dataclass(frozen=True)
class Order:
    """One start of one workspace."""

    workspace_id: UUID
    token: FencingToken
    image_ref: str
    env: Mapping[str, str]
    limits: ResourceLimits


def workspace_pod(order: Order, *, image: Image, names: Names, settings: KubernetesSettings) -> Document:
    env = {
        **order.env,
        "HOME": image.home,
        "CODEHUB_WORKSPACE_ID": str(order.workspace_id),
        "CODEHUB_PORT": str(image.port),
        "CODEHUB_BASE_PATH": settings.base_path.format(id=order.workspace_id),
    }
    container = {
        "name": CONTAINER,
        "image": image.image,
        "imagePullPolicy": image.pull_policy,
        **({"command": list(image.command)} if image.command else {}),
        **({"args": list(image.args)} if image.args else {}),
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "ports": [{"containerPort": image.port}],
        "resources": _resources(order.limits, settings.requests),
        "securityContext": _container_security(),
        "volumeMounts": [{"name": "home", "mountPath": image.home, "subPath": HOME_FOLDER}],
    }
    secrets = [*settings.placement.pull_secrets, *image.pull_secrets]
    pod = _pod(
        names.pod(order.workspace_id),
        container,
        settings=settings,
        placement=settings.placement,
        volumes=[_home_volume(names, order.workspace_id)],
        grace_seconds=settings.stop_grace_seconds,
        pull_secrets=secrets,
    )
    pod["spec"]["hostname"] = f"ws-{str(order.workspace_id)[:8]}"
    if settings.inside_image is not None:
        add_inside(pod)
    pod = merged(merged(pod, settings.pod_patch), image.pod_patch)
    about = {labels.PORT: str(image.port), labels.IMAGE: order.image_ref}
    return _as_ours(pod, names.labels(order.workspace_id, ObjectRole.WORKSPACE), order.token, about)


def job_pod(
    job: StorageJob,
    token: FencingToken,
    *,
    secret: str,
    names: Names,
    settings: KubernetesSettings,
    jobs: JobSettings,
) -> Document:
    """The pod of a storage job: an archive sees the home alone, a restore its whole volume."""
    volumes, mounts = _job_volumes(job, secret, names, jobs)
    container = {
        "name": JOB_CONTAINER,
        "image": jobs.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [*jobs.command, f"{_ORDER}/{_ORDER_FILE}"],
        "env": _from_secret(secret, jobs.env),
        "resources": _resources(jobs.limits, jobs.requests),
        "securityContext": {**_container_security(), "readOnlyRootFilesystem": True},
        "volumeMounts": mounts,
    }
    pod = _pod(
        names.job(job.workspace_id),
        container,
        settings=settings,
        placement=settings.placement,
        volumes=volumes,
        grace_seconds=_JOB_GRACE_SECONDS,
        pull_secrets=settings.placement.pull_secrets,
    )
    if jobs.service_account is not None:
        pod["spec"]["serviceAccountName"] = jobs.service_account
    about = {labels.OP_ID: str(job.op_id)}
    return _as_ours(pod, names.labels(job.workspace_id, ObjectRole.STORAGE_JOB), token, about)


def _job_volumes(
    job: StorageJob, secret: str, names: Names, jobs: JobSettings
) -> tuple[list[Document], list[Document]]:
    """Volumes of a storage job, and where they are mounted."""
    archiving = job.kind is StorageKind.ARCHIVE
    home = {"name": "home", "mountPath": f"{VOLUME}/{HOME_FOLDER}" if archiving else VOLUME}
    mounts = [home | ({"subPath": HOME_FOLDER, "readOnly": True} if archiving else {})]
    mounts += [{"name": "order", "mountPath": _ORDER, "readOnly": True}, {"name": "tmp", "mountPath": "/tmp"}]
    volumes = [
        _home_volume(names, job.workspace_id),
        {
            "name": "order",
            "secret": {"secretName": secret, "items": [{"key": _ORDER_FILE, "path": _ORDER_FILE}]},
        },
        {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
    ]
    directory = store_directory(jobs.archive_url)
    if directory is not None:
        mounts.append({"name": "archives", "mountPath": directory})
        volumes.append({"name": "archives", "persistentVolumeClaim": {"claimName": jobs.archive_claim}})
    return volumes, mounts


def job_secret(job: StorageJob, *, name: str, pod_uid: str, names: Names, jobs: JobSettings) -> Document:
    """The order and the credentials of one storage job, which go with its pod."""
    order = {
        "kind": job.kind.value,
        "workspace_id": str(job.workspace_id),
        "op_id": str(job.op_id),
        "installation_id": names.installation_id,
        "archive_key": job.archive_key,
        "archive_sha256": job.archive_sha256,
        "archive_source_id": str(job.archive_source_id) if job.archive_source_id else None,
        "format_version": job.format_version,
        "archive_url": jobs.archive_url,
        "volume_path": f"{VOLUME}/{HOME_FOLDER}",
        "staging_dir": f"{VOLUME}/.codehub-restore",
        "storage_options": dict(jobs.storage_options),
    }
    owner = {"apiVersion": "v1", "kind": "Pod", "name": names.job(job.workspace_id), "uid": pod_uid}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "labels": names.labels(job.workspace_id, ObjectRole.ORDER),
            "ownerReferences": [owner],
        },
        "immutable": True,
        "stringData": {_ORDER_FILE: json.dumps(order), **jobs.env},
    }


def home_claim(
    workspace_id: UUID,
    token: FencingToken,
    *,
    names: Names,
    settings: KubernetesSettings,
    image_ref: str = "",
) -> Document:
    """The claim of a home. Owned by nothing: garbage collection must never delete a home."""
    homes = settings.homes_of(image_ref)
    spec: Document = {
        "accessModes": [homes.access_mode],
        "resources": {"requests": {"storage": str(homes.bytes)}},
    }
    if homes.storage_class is not None:
        spec["storageClassName"] = homes.storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": names.home(workspace_id),
            "labels": {**settings.placement.labels, **names.labels(workspace_id, ObjectRole.HOME)},
            "annotations": {labels.TOKEN: token_text(token), labels.HOME_KIND: homes.kind.value},
        },
        "spec": spec,
    }


def config_map(name: str, wanted_labels: Mapping[str, str], annotations: Mapping[str, str]) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": dict(wanted_labels), "annotations": dict(annotations)},
    }


def store_directory(archive_url: str) -> str | None:
    """Directory of a ``file://`` store; None: an object store."""
    parts = urlsplit(archive_url)
    return unquote(parts.path) if parts.scheme == "file" else None


def _pod(
    name: str,
    container: Document,
    *,
    settings: KubernetesSettings,
    placement: Placement,
    volumes: list[Document],
    grace_seconds: int,
    pull_secrets: Any,
) -> Document:
    user = settings.user
    spec: Document = {
        "containers": [container],
        "volumes": volumes,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": grace_seconds,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "shareProcessNamespace": True,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": user,
            "runAsGroup": user,
            "fsGroup": user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    if pull_secrets:
        spec["imagePullSecrets"] = [{"name": each} for each in dict.fromkeys(pull_secrets)]
    if placement.node_selector:
        spec["nodeSelector"] = dict(placement.node_selector)
    if placement.tolerations:
        spec["tolerations"] = [dict(each) for each in placement.tolerations]
    if placement.runtime_class is not None:
        spec["runtimeClassName"] = placement.runtime_class
    if placement.priority_class is not None:
        spec["priorityClassName"] = placement.priority_class
    metadata = {
        "name": name,
        "labels": dict(placement.labels),
        "annotations": dict(placement.annotations),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _as_ours(
    pod: Document, wanted: Mapping[str, str], token: FencingToken, annotations: Mapping[str, str]
) -> Document:
    """Set what no patch may change: our labels, the token, the gate, no restart."""
    metadata = pod["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), **wanted}
    metadata["annotations"] = {
        **(metadata.get("annotations") or {}),
        **annotations,
        labels.TOKEN: token_text(token),
    }
    pod["spec"]["restartPolicy"] = "Never"
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    return pod


def _from_secret(secret: str, names: Iterable[str]) -> list[Document]:
    return [{"name": each, "valueFrom": {"secretKeyRef": {"name": secret, "key": each}}} for each in names]


def _home_volume(names: Names, workspace_id: UUID) -> Document:
    return {"name": "home", "persistentVolumeClaim": {"claimName": names.home(workspace_id)}}


def _container_security() -> Document:
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def _resources(limits: ResourceLimits, requests: ResourceLimits) -> Document:
    """ResourceLimits, and requests that are never above them. Kubernetes has no limit of processes for a pod."""
    least = ResourceLimits(
        cpus=_at_most(requests.cpus, limits.cpus),
        memory_bytes=_at_most(requests.memory_bytes, limits.memory_bytes),
    )
    return {"limits": _quantities(limits), "requests": _quantities(least)}


def _quantities(limits: ResourceLimits) -> dict[str, str]:
    found = {}
    if limits.cpus is not None:
        found["cpu"] = f"{int(limits.cpus * 1000)}m"
    if limits.memory_bytes is not None:
        found["memory"] = str(limits.memory_bytes)
    return found


def _at_most(request: _Amount | None, limit: _Amount | None) -> _Amount | None:
    return request if request is None or limit is None else min(request, limit)
