"""Build the Kubernetes runtime from the settings, and try its pods against the API server."""

import re
from collections.abc import Callable, Mapping
from uuid import UUID

import structlog

from codehub.domain.errors import EffectError
from codehub.runtimes.base import ResourceLimits
from codehub.runtimes.inside import find_inside
from codehub.runtimes.kubernetes.access import Access, AccessError, find_access
from codehub.runtimes.kubernetes.catalogue import Image
from codehub.runtimes.kubernetes.client import ApiClient
from codehub.runtimes.kubernetes.runtime import KubernetesRuntime
from codehub.runtimes.kubernetes.settings import JobSettings, KubernetesSettings, Placement
from codehub.server.settings.tree import Settings
from codehub.server.settings.variables import SettingsError

log = structlog.get_logger(__name__)

DEFAULT_NAMESPACE = "codehub"
_SECRETS = re.compile(r"KEY|SECRET|TOKEN|CREDENTIAL|ROLE_ARN", re.I)


async def build_kubernetes_runtime(
    settings: Settings,
    installation_id: str,
    *,
    has_homes: bool,
    job_env: Mapping[str, str],
    on_exit: Callable[[UUID], None] | None = None,
) -> KubernetesRuntime:
    """Build the Kubernetes runtime. Does not wait for the API server.

    ``has_homes``: the database knows of volumes, so a namespace without our mark is the wrong one.
    ``job_env``: what storage jobs need to reach the archive store. ``on_exit`` None: the process only asks for
    addresses; nothing is tried, swept or marked.
    """
    access = access_of(settings)
    runtime = KubernetesRuntime(
        installation_id,
        runtime_settings(settings, access),
        api=ApiClient(access),
        jobs=job_settings(settings, job_env),
        on_exit=on_exit,
    )
    if on_exit is None:  # the proxy's process: it asks for addresses, and may have no other right
        runtime.forbid_marking()
        return runtime
    try:
        await runtime.check_manifests()
    except ValueError as error:
        await runtime.close()
        raise SettingsError(
            f"The cluster refuses the pods of these settings: {error}. Check CODEHUB_KUBERNETES_POD_PATCH and the "
            "other CODEHUB_KUBERNETES_… settings."
        ) from error
    except EffectError as error:
        log.warning("the pods of workspaces could not be tried against the cluster", error=error.message)
    await runtime.prepare(create=not has_homes)
    return runtime


def access_of(settings: Settings) -> Access:
    try:
        return find_access(settings.kubernetes.kubeconfig, context=settings.kubernetes.context)
    except AccessError as error:
        raise SettingsError(f"{error} Set KUBECONFIG, or run CodeHub in the cluster.") from error


def runtime_settings(settings: Settings, access: Access) -> KubernetesSettings:
    group = settings.kubernetes
    return KubernetesSettings(
        images=_default_first(group.images, settings.runtime.default_image),
        namespace=group.namespace or access.namespace or DEFAULT_NAMESPACE,
        user=group.user,
        storage_class=group.storage_class,
        home_bytes=group.home_size,
        access_mode=group.access_mode,
        home_kind=group.home_kind,
        default_limits=ResourceLimits(cpus=group.cpus, memory_bytes=group.memory),
        requests=ResourceLimits(cpus=group.request_cpus, memory_bytes=group.request_memory),
        placement=Placement(
            node_selector=group.node_selector,
            tolerations=group.tolerations,
            labels=group.labels,
            annotations=group.annotations,
            pull_secrets=group.pull_secrets,
            runtime_class=group.runtime_class,
            priority_class=group.priority_class,
        ),
        inside_image=group.inside_image if find_inside() is not None else None,
        pod_patch=group.pod_patch,
        schedule_seconds=group.schedule_timeout,
    )


def job_settings(settings: Settings, job_env: Mapping[str, str]) -> JobSettings:
    group = settings.kubernetes
    if settings.archive_url.startswith("file://") and group.archive_claim is None:
        raise SettingsError(
            "Storage jobs are pods and cannot reach archives in a directory of this machine. Set ARCHIVE_URL to an "
            "object store, or CODEHUB_KUBERNETES_ARCHIVE_CLAIM to a claim that is mounted there."
        )
    by_identity = group.job_service_account is not None
    return JobSettings(
        image=group.job_image,
        archive_url=settings.archive_url,
        env={key: value for key, value in job_env.items() if not (by_identity and _SECRETS.search(key))},
        archive_claim=group.archive_claim,
        service_account=group.job_service_account,
    )


def _default_first(images: Mapping[str, Image], default: str | None) -> dict[str, Image]:
    if default is None:
        return dict(images)
    if default not in images:
        known = ", ".join(images)
        raise SettingsError(f"CODEHUB_DEFAULT_IMAGE={default} is not in CODEHUB_KUBERNETES_IMAGES: {known}.")
    return {default: images[default], **images}
