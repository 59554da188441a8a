"""Build the configured runtime: beside ``wiring``, the only place that names one.

Apart from ``wiring`` because the proxy's process needs a runtime (for addresses) and no API.
"""

import os
import sys
from collections.abc import Awaitable, Callable, Hashable, Mapping
from functools import partial
from typing import Protocol, assert_never
from uuid import UUID

from codehub.runtimes.base import Address, InstallableImage, Runtime
from codehub.runtimes.local.ides.catalogue import PLACEHOLDER
from codehub.runtimes.local.ides.installations import Installations
from codehub.runtimes.local.images import default_images
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.runtimes.local.sandbox_check import NoSandboxError
from codehub.server.sandbox_rule import private_directories, require_sandbox, sandbox_refusal
from codehub.server.settings.tree import LocalSandbox, RuntimeKind, Settings
from codehub.server.settings.variables import SettingsError
from codehub.store.cluster.installation import InstallationRecord

JOB_COMMAND = (sys.executable, "-m", "codehub.archives.job")
STORE_CREDENTIALS = ("AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_")
"""Prefixes of the variables a storage job needs to reach its store; workspaces get none of them."""


class HostedRuntime(Runtime, Protocol):
    """A runtime as the server uses it: also for the proxy's images and ports."""

    def uses_base_path(self, image_ref: str) -> bool: ...

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None: ...

    async def listener(self, workspace_id: UUID, address: Address) -> Hashable | None: ...

    async def stop_all(self) -> None:
        """Stop every workspace; homes and desired states stay."""


def ties_home_to_node(settings: Settings) -> Callable[[str], bool]:
    """Whether homes of an image are on one node of several, and lost with it."""
    if settings.runtime.kind is RuntimeKind.KUBERNETES:
        return settings.kubernetes.ties_home_to_node
    return lambda image_ref: False  # one machine, or every machine has all homes


async def build_runtime(
    settings: Settings,
    installation: InstallationRecord,
    *,
    has_homes: bool,
    on_exit: Callable[[UUID], None] | None = None,
) -> HostedRuntime:
    """Build the configured runtime.

    ``has_homes``: the database has volumes on record, so an empty data directory is a disk not mounted.
    """
    job_env = {key: value for key, value in os.environ.items() if key.startswith(STORE_CREDENTIALS)}
    match settings.runtime.kind:
        case RuntimeKind.LOCAL:
            return await _local(settings, installation, job_env=job_env, has_homes=has_homes, on_exit=on_exit)
        case RuntimeKind.DOCKER:
            # Imported here, so that the local runtime does not load a Docker client.
            from codehub.server.docker_runtime import build_docker_runtime

            return await build_docker_runtime(
                settings, str(installation.id), job_env=job_env, has_homes=has_homes, on_exit=on_exit
            )
        case RuntimeKind.KUBERNETES:
            from codehub.server.kubernetes_runtime import build_kubernetes_runtime

            return await build_kubernetes_runtime(
                settings, str(installation.id), job_env=job_env, has_homes=has_homes, on_exit=on_exit
            )
        case _:
            assert_never(settings.runtime.kind)


def local_images(settings: Settings) -> dict[str, str]:
    """Images of the local runtime: those of LOCAL_IMAGES, or IDEs that are here or may be installed."""
    return dict(settings.runtime.local_images or default_images(installable=settings.runtime.ide_install))


def image_installations(settings: Settings) -> Callable[[], Awaitable[list[InstallableImage]]] | None:
    """Describes the images that are installed at their first use; None: there are none."""
    if settings.runtime.kind is not RuntimeKind.LOCAL:
        return None
    names = [name for name, command in local_images(settings).items() if PLACEHOLDER in command]
    return partial(Installations(settings.data_dir).describe, names) if names else None


async def _local(
    settings: Settings,
    installation: InstallationRecord,
    *,
    job_env: Mapping[str, str],
    has_homes: bool,
    on_exit: Callable[[UUID], None] | None,
) -> LocalRuntime:
    require_sandbox(settings)
    images = local_images(settings)
    default = settings.runtime.default_image
    if default is not None and default not in images:
        known = ", ".join(images) or "none"
        raise SettingsError(f"CODEHUB_DEFAULT_IMAGE={default} is no image of this machine. Known: {known}.")
    if default is not None:
        images = {default: images[default], **images}
    runtime = LocalRuntime(
        settings.data_dir,
        str(installation.id),
        images,
        job_command=JOB_COMMAND,
        archive_url=settings.archive_url,
        job_env=job_env,
        on_exit=on_exit,
        use_bubblewrap=settings.runtime.local_sandbox is not LocalSandbox.OFF,
        hidden=private_directories(settings),
    )
    try:
        await runtime.prepare(create=not has_homes)
    except NoSandboxError as error:
        raise sandbox_refusal(str(error)) from error
    return runtime
