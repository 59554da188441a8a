"""Storage checks of ``codehub doctor`` on Kubernetes: the class, homes that are too small, volumes left over.

Storage classes and volumes belong to the whole cluster. CodeHub need not read them; where it may, it says more.
"""

from codehub.domain.errors import EffectError
from codehub.runtimes.base import LeftVolume
from codehub.runtimes.kubernetes.client import ApiClient, namespaced
from codehub.runtimes.kubernetes.inventory import claimed_bytes
from codehub.runtimes.kubernetes.left_volumes import list_left_volumes
from codehub.runtimes.kubernetes.names import ROLE, Document, ObjectRole
from codehub.runtimes.kubernetes.settings import KubernetesSettings
from codehub.server.doctor.findings import Finding, Severity

_SHOWN = 5


async def examine_storage(api: ApiClient, wanted: KubernetesSettings) -> list[Finding]:
    classes = await _list_if_allowed(api, "/apis/storage.k8s.io/v1/storageclasses")
    volumes = await list_left_volumes(api, namespace=wanted.namespace)
    label = f"{ROLE}={ObjectRole.HOME.value}"
    claims = await api.list(namespaced(wanted.namespace, "persistentvolumeclaims"), labels=label)
    found = [_storage_class(classes, wanted)]
    if (small := _small_homes(claims, classes, wanted)) is not None:
        found.append(small)
    if (left := _left_volumes(volumes)) is not None:
        found.append(left)
    return found


async def _list_if_allowed(api: ApiClient, path: str) -> list[Document] | None:
    try:
        return await api.list(path)
    except EffectError:
        return None


def _storage_class(classes: list[Document] | None, wanted: KubernetesSettings) -> Finding:
    if classes is None:
        detail = f"{wanted.storage_class or 'the default'}; CodeHub may not read storage classes, which it need not"
        return Finding("storage class", Severity.OK, detail)
    found = [each for each in classes if _is_wanted(each, wanted.storage_class)]
    if not found:
        name = wanted.storage_class or "default"
        advice = "Name one in CODEHUB_KUBERNETES_STORAGE_CLASS, or mark one as the default."
        return Finding("storage class", Severity.BAD, f"there is no {name} storage class", advice)
    name, policy = found[0]["metadata"]["name"], found[0].get("reclaimPolicy", "Delete")
    grows = "homes can grow" if found[0].get("allowVolumeExpansion") else "homes cannot grow"
    detail = f"{name} ({found[0].get('provisioner')}), reclaim policy {policy}, {grows}"
    if policy != "Delete":
        advice = "Volumes of deleted workspaces stay and cost money until somebody removes them."
        return Finding("storage class", Severity.NOTE, detail, advice)
    return Finding("storage class", Severity.OK, detail)


def _small_homes(
    claims: list[Document], classes: list[Document] | None, wanted: KubernetesSettings
) -> Finding | None:
    """Homes that have less than the setting says, and whether that changes."""
    small = [each for each in claims if (claimed_bytes(each) or wanted.home_bytes) < wanted.home_bytes]
    if not small:
        return None
    fixed = {each["metadata"]["name"] for each in classes or () if not each.get("allowVolumeExpansion")}
    stuck = [each for each in small if (each.get("spec") or {}).get("storageClassName") in fixed]
    if stuck:
        detail = f"{_names(stuck)} have less than CODEHUB_KUBERNETES_HOME_SIZE, and their class does not let them grow"
        advice = (
            "Set allowVolumeExpansion on the storage class if its driver can; else archive and wake them."
        )
        return Finding("home sizes", Severity.NOTE, detail, advice)
    detail = f"{_names(small)} have less than CODEHUB_KUBERNETES_HOME_SIZE, and are made larger at their next start"
    return Finding("home sizes", Severity.OK, detail)


def _left_volumes(left: list[LeftVolume] | None) -> Finding | None:
    """Volumes of homes whose claim is gone: kept by their reclaim policy."""
    if not left:
        return None
    detail = f"{_listed([each.name for each in left])} outlived their workspaces or were archived"
    advice = "Remove them: kubectl delete persistentvolume, and the disk."
    return Finding("volumes left over", Severity.NOTE, detail, advice)


def _names(documents: list[Document]) -> str:
    return _listed([str(each["metadata"]["name"]) for each in documents])


def _listed(names: list[str]) -> str:
    shown = ", ".join(sorted(names)[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _is_wanted(document: Document, name: str | None) -> bool:
    metadata = document["metadata"]
    if name is not None:
        return bool(metadata["name"] == name)
    default = (metadata.get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class")
    return bool(default == "true")
