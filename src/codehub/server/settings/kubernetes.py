"""Settings of the Kubernetes runtime: one branch of the settings tree."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from codehub.runtimes.kubernetes.catalogue import DEFAULT_IMAGES, HomeKind, Image, parse_catalogue
from codehub.server.settings.docker import as_bytes, as_names
from codehub.server.settings.variables import Group, variable

AccessMode = Literal["ReadWriteOncePod", "ReadWriteOnce", "ReadWriteMany"]


def _catalogue(value: object) -> object:
    if not isinstance(value, str):
        return value
    return parse_catalogue(_file_or_text(value))


def _file_or_text(value: str) -> str:
    """The text itself, or the content of the file it names."""
    if not value.lstrip().startswith("/"):
        return value
    try:
        return Path(value.strip()).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the file cannot be read ({error})") from error


def _json_object(value: object) -> object:
    return _json(value, dict, 'a JSON object such as {"name": "value"}')


def _texts(value: object) -> object:
    found = _json_object(value)
    if isinstance(found, dict) and not all(isinstance(each, str) for each in found.values()):
        raise ValueError('a JSON object whose values are strings is needed, as {"name": "value"}')
    return found


def _json_list(value: object) -> object:
    return _json(value, list, "a JSON list")


def _json(value: object, kind: type, wanted: str) -> object:
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(_file_or_text(value))
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos})") from error
    if not isinstance(found, kind):
        raise ValueError(f"{wanted} is needed")
    return found


class KubernetesGroup(Group):
    kubeconfig: str | None = variable(
        "KUBECONFIG",
        meaning="File that says how to reach the cluster, with CODEHUB_RUNTIME=kubernetes",
        shown="in a pod its service account, else ~/.kube/config",
    )
    context: str | None = variable(
        "CODEHUB_KUBERNETES_CONTEXT", meaning="Context of that file", shown="its current one"
    )
    namespace: str | None = variable(
        "CODEHUB_KUBERNETES_NAMESPACE",
        meaning="Namespace of workspaces; one for each installation is best",
        shown="that of the pod or the context",
    )
    images: Annotated[Mapping[str, Image], BeforeValidator(_catalogue)] = variable(
        "CODEHUB_KUBERNETES_IMAGES",
        DEFAULT_IMAGES,
        meaning="Images a workspace may run, the default first: JSON object, or a file that holds it, name → image, "
        "port, home, base_path, command, args, pull_policy, pull_secrets, pod_patch, and of its homes storage_class, "
        "home_size, access_mode, home_kind",
        shown="code-server and jupyterlab, as codehub/…",
    )
    pull_secrets: Annotated[tuple[str, ...], BeforeValidator(as_names)] = variable(
        "CODEHUB_KUBERNETES_PULL_SECRETS",
        (),
        meaning="Secrets of the namespace that pull images, separated by commas",
        shown="none",
    )
    user: int = variable(
        "CODEHUB_KUBERNETES_USER",
        1000,
        meaning="uid, gid and fsGroup of every workspace and storage job; changing it shuts people out of their files",
        ge=1,
        le=2**31 - 1,
    )
    storage_class: str | None = variable(
        "CODEHUB_KUBERNETES_STORAGE_CLASS", meaning="Storage class of homes", shown="the cluster's default"
    )
    home_size: Annotated[int, BeforeValidator(as_bytes)] = variable(
        "CODEHUB_KUBERNETES_HOME_SIZE",
        10 * 1024**3,
        meaning="Size of a home; one that has less grows at its next start, if its storage class allows it",
        shown="10g",
        ge=1024**2,
    )
    access_mode: AccessMode = variable(
        "CODEHUB_KUBERNETES_ACCESS_MODE",
        "ReadWriteOncePod",
        meaning="Access mode of homes: ReadWriteOncePod, or where its driver cannot, ReadWriteOnce",
    )
    home_kind: HomeKind = variable(
        "CODEHUB_KUBERNETES_HOME_KIND",
        HomeKind.NETWORK,
        meaning="network: any node can mount a home; node-local: the storage class keeps it on one node, and it is "
        "lost with that node up to its last archive, which people are told",
    )
    cpus: float | None = variable(
        "CODEHUB_KUBERNETES_LIMIT_CPUS", meaning="CPUs one workspace may use", shown="no limit", gt=0
    )
    memory: Annotated[int | None, BeforeValidator(as_bytes)] = variable(
        "CODEHUB_KUBERNETES_LIMIT_MEMORY",
        4 * 1024**3,
        meaning="Memory one workspace may use",
        shown="4g",
        ge=16 * 1024**2,
    )
    request_cpus: float | None = variable(
        "CODEHUB_KUBERNETES_REQUEST_CPUS", 0.1, meaning="CPUs the scheduler sets aside for a workspace", gt=0
    )
    request_memory: Annotated[int | None, BeforeValidator(as_bytes)] = variable(
        "CODEHUB_KUBERNETES_REQUEST_MEMORY",
        512 * 1024**2,
        meaning="Memory the scheduler sets aside for a workspace",
        shown="512m",
        ge=1024**2,
    )
    job_image: str = variable(
        "CODEHUB_KUBERNETES_JOB_IMAGE",
        "codehub/job",
        meaning="Image that moves homes into archives and back; CodeHub's own image will do",
    )
    inside_image: str | None = variable(
        "CODEHUB_KUBERNETES_INSIDE_IMAGE",
        meaning="Image that has /inside, which CodeHub runs in workspaces for SSH, commands and files: CodeHub's own",
        shown="none: they go without",
    )
    job_service_account: str | None = variable(
        "CODEHUB_KUBERNETES_JOB_SERVICE_ACCOUNT",
        meaning="Service account whose cloud identity reaches the object store; no keys are passed on then",
    )
    archive_claim: str | None = variable(
        "CODEHUB_KUBERNETES_ARCHIVE_CLAIM",
        meaning="Claim that holds file:// archives, which CodeHub and storage jobs mount at the same directory",
    )
    schedule_timeout: float = variable(
        "CODEHUB_KUBERNETES_SCHEDULE_TIMEOUT",
        600.0,
        meaning="Seconds a workspace or storage job may wait for a node, which an autoscaler may have to make; they "
        "use up no other timeout",
        gt=0,
    )
    node_selector: Annotated[Mapping[str, str], BeforeValidator(_texts)] = variable(
        "CODEHUB_KUBERNETES_NODE_SELECTOR",
        {},
        meaning="Labels of the nodes that take workspaces and storage jobs: JSON object",
        shown="any node",
    )
    tolerations: Annotated[tuple[Mapping[str, Any], ...], BeforeValidator(_json_list)] = variable(
        "CODEHUB_KUBERNETES_TOLERATIONS", (), meaning="Tolerations of these pods: JSON list", shown="none"
    )
    runtime_class: str | None = variable(
        "CODEHUB_KUBERNETES_RUNTIME_CLASS", meaning="Runtime class of these pods, such as gvisor"
    )
    priority_class: str | None = variable(
        "CODEHUB_KUBERNETES_PRIORITY_CLASS", meaning="Priority class of these pods"
    )
    labels: Annotated[Mapping[str, str], BeforeValidator(_texts)] = variable(
        "CODEHUB_KUBERNETES_LABELS", {}, meaning="More labels of pods and claims: JSON object", shown="none"
    )
    annotations: Annotated[Mapping[str, str], BeforeValidator(_texts)] = variable(
        "CODEHUB_KUBERNETES_ANNOTATIONS",
        {},
        meaning="More annotations of pods: JSON object",
        shown="none",
    )
    pod_patch: Annotated[Mapping[str, Any], BeforeValidator(_json_object)] = variable(
        "CODEHUB_KUBERNETES_POD_PATCH",
        {},
        meaning="Merged into every workspace's pod, for what has no setting: JSON object, or a file that holds it; its "
        "container is called workspace",
        shown="none",
    )

    def ties_home_to_node(self, image_ref: str) -> bool:
        """Whether homes of this image are on one node, and lost with it."""
        image = self.images.get(image_ref)
        return ((image.home_kind if image else None) or self.home_kind) is HomeKind.NODE_LOCAL
