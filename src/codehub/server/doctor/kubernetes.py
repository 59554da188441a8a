"""Kubernetes checks of ``codehub doctor``: reach, permissions, pods, storage, quota, network.

Pods are tried by a server-side dry run, which PodSecurity, quotas and admission plug-ins judge too. Nothing is created,
but two pods that try the network for a moment (``kubernetes_network``).
What only a cluster-wide permission could tell (storage classes, the namespace's labels) is told where it may be read.
"""

import asyncio
from collections.abc import Sequence
from uuid import UUID

from codehub.domain.errors import EffectError
from codehub.runtimes.base import FencingToken, StorageJob, StorageKind
from codehub.runtimes.kubernetes.client import ApiClient, CallRefused, Conflict, NotFound, namespaced
from codehub.runtimes.kubernetes.manifests import Order, home_claim, job_pod, workspace_pod
from codehub.runtimes.kubernetes.names import Document, Names
from codehub.runtimes.kubernetes.settings import KubernetesSettings
from codehub.server.doctor.findings import Finding, Severity
from codehub.server.doctor.kubernetes_network import examine_network
from codehub.server.doctor.kubernetes_storage import examine_storage
from codehub.server.kubernetes_runtime import access_of, job_settings, runtime_settings
from codehub.server.settings.tree import Settings
from codehub.server.settings.variables import SettingsError

OLDEST_MINOR = 30  # scheduling gates are stable
ANSWER_SECONDS = 10.0
PERMISSIONS: Sequence[tuple[str, str]] = (
    *(("pods", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    ("pods/log", "get"),
    ("pods/exec", "get"),  # how a WebSocket is opened
    ("pods/exec", "create"),  # what Kubernetes 1.35 and newer ask for as well
    ("pods/ephemeralcontainers", "patch"),  # brings the program that commands need
    *(("persistentvolumeclaims", verb) for verb in ("get", "list", "watch", "create", "patch", "delete")),
    *(("configmaps", verb) for verb in ("get", "list", "create", "update", "delete")),
    ("secrets", "create"),
)
"""What the Role of CodeHub needs, and no more. Events are read if that is allowed."""
_NOBODY = UUID(int=0)
_NOTHING = FencingToken(0, 0)


async def examine_kubernetes(settings: Settings) -> list[Finding]:
    """Check the cluster; the rest only if it answers. Never raises for a finding."""
    try:
        access = access_of(settings)
    except SettingsError as error:
        return [Finding("runtime", Severity.BAD, str(error))]
    wanted = runtime_settings(settings, access)
    api = ApiClient(access, call_seconds=ANSWER_SECONDS)
    try:
        return [
            _version(access.server, wanted.namespace, await api.get("/version")),
            await _permissions(api, wanted.namespace),
            await _workspaces(api, wanted),
            await _jobs(api, settings, wanted),
            await _homes(api, wanted),
            *await examine_storage(api, wanted),
            await _quota(api, wanted.namespace),
            await examine_network(api, settings, wanted),
        ]
    except EffectError as error:
        advice = (
            "Check KUBECONFIG and CODEHUB_KUBERNETES_CONTEXT, and that this machine reaches the API server."
        )
        return [Finding("runtime", Severity.BAD, error.message, advice)]
    finally:
        await api.close()


def _version(server: str, namespace: str, version: Document) -> Finding:
    detail = f"Kubernetes {version.get('gitVersion', '')} at {server}, namespace {namespace}"
    minor = "".join(filter(str.isdigit, str(version.get("minor", ""))))
    if version.get("major") == "1" and minor.isdigit() and int(minor) < OLDEST_MINOR:
        return Finding("runtime", Severity.BAD, detail, f"Use Kubernetes 1.{OLDEST_MINOR} or newer.")
    return Finding("runtime", Severity.OK, detail)


async def _permissions(api: ApiClient, namespace: str) -> Finding:
    answers = await asyncio.gather(*(_may(api, namespace, *each) for each in PERMISSIONS))
    missing = [each for each, allowed in zip(PERMISSIONS, answers, strict=True) if not allowed]
    if missing:
        detail = "not allowed: " + ", ".join(f"{verb} {resource}" for resource, verb in missing)
        return Finding("permissions", Severity.BAD, detail, f"Give them to CodeHub by a Role in {namespace}.")
    return Finding("permissions", Severity.OK, f"all {len(PERMISSIONS)} that are needed")


async def _may(api: ApiClient, namespace: str, resource: str, verb: str) -> bool:
    resource, _, part = resource.partition("/")
    attributes = {"namespace": namespace, "verb": verb, "resource": resource, "subresource": part}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": attributes},
    }
    try:
        found = await api.create("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    except (CallRefused, NotFound, Conflict):
        return False
    return bool((found.get("status") or {}).get("allowed"))


async def _workspaces(api: ApiClient, wanted: KubernetesSettings) -> Finding:
    names = Names("doctor")
    for image_ref, image in wanted.images.items():
        order = Order(_NOBODY, _NOTHING, image_ref, {}, wanted.default_limits)
        manifest = workspace_pod(order, image=image, names=names, settings=wanted)
        if (problem := await _try(api, wanted.namespace, "pods", manifest)) is not None:
            return Finding("workspaces", Severity.BAD, f"{image_ref} would be refused: {problem}", _ADVICE)
    listed = ", ".join(f"{name} ({image.image})" for name, image in wanted.images.items())
    return Finding(
        "workspaces", Severity.OK, f"the cluster would take {listed}; whether nodes can pull it is not known"
    )


async def _jobs(api: ApiClient, settings: Settings, wanted: KubernetesSettings) -> Finding:
    try:
        jobs = job_settings(settings, {})
    except SettingsError as error:
        return Finding("storage jobs", Severity.BAD, str(error))
    job = StorageJob(StorageKind.ARCHIVE, _NOBODY, _NOBODY)
    manifest = job_pod(job, _NOTHING, secret="none", names=Names("doctor"), settings=wanted, jobs=jobs)
    if (problem := await _try(api, wanted.namespace, "pods", manifest)) is not None:
        return Finding("storage jobs", Severity.BAD, f"would be refused: {problem}", _ADVICE)
    return Finding("storage jobs", Severity.OK, f"the cluster would take {jobs.image}")


async def _homes(api: ApiClient, wanted: KubernetesSettings) -> Finding:
    claim = home_claim(_NOBODY, _NOTHING, names=Names("doctor"), settings=wanted)
    if (problem := await _try(api, wanted.namespace, "persistentvolumeclaims", claim)) is not None:
        return Finding("homes", Severity.BAD, f"would be refused: {problem}", _ADVICE)
    size = f"{wanted.home_bytes / 1024**3:g} GiB"
    return Finding("homes", Severity.OK, f"{size}, {wanted.access_mode}")


async def _quota(api: ApiClient, namespace: str) -> Finding:
    try:
        quotas = await api.list(namespaced(namespace, "resourcequotas"))
    except EffectError:
        return Finding("quota", Severity.OK, "CodeHub may not read quotas, which it need not")
    used_up = [
        f"{key}: {used} of {(quota['status'].get('hard') or {}).get(key)}"
        for quota in quotas
        for key, used in ((quota.get("status") or {}).get("used") or {}).items()
        if used == (quota["status"].get("hard") or {}).get(key)
    ]
    if used_up:
        return Finding(
            "quota", Severity.NOTE, f"used up: {', '.join(used_up)}", "Raise the namespace's quota."
        )
    return Finding("quota", Severity.OK, "not used up" if quotas else "none in this namespace")


async def _try(api: ApiClient, namespace: str, kind: str, manifest: Document) -> str | None:
    """Why the cluster would refuse this; None: it would take it."""
    try:
        await api.create(namespaced(namespace, kind), manifest, dry_run=True)
    except (CallRefused, NotFound) as error:
        return str(error)
    except Conflict:
        return None
    return None


_ADVICE = "Change the CODEHUB_KUBERNETES_… settings, the quota, or the policy that refuses it."
