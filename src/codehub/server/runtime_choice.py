"""Which runtime this installation has: with ``wiring``, the only place that names concrete ones.

Apart from ``wiring`` because the proxy's process needs a runtime (for addresses) and no API.
"""

import os
import sys
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol, assert_never
from uuid import UUID

from codehub.runtimes.base import Address, Runtime
from codehub.runtimes.local.images import default_images
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.server.settings import RuntimeKind, Settings
from codehub.server.variables import SettingsError
from codehub.store.installation import InstallationRecord

JOB_COMMAND = (sys.executable, "-m", "codehub.archives.job")
STORE_CREDENTIALS = ("AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_")
"""Prefixes of the variables a storage job needs to reach its store; workspaces get none of them."""


class HostedRuntime(Runtime, Protocol):
    """A runtime as the server uses it: with what the proxy asks about images and ports too."""

    def uses_base_path(self, image_ref: str) -> bool: ...

    async def port_address(self, workspace_id: UUID, port: int) -> Address | None: ...

    async def listener(self, workspace_id: UUID, address: Address) -> Hashable | None: ...

    async def stop_all(self) -> None:
        """End every workspace; homes and wishes stay."""


async def build_runtime(
    settings: Settings,
    installation: InstallationRecord,
    *,
    has_homes: bool,
    on_death: Callable[[UUID], None] | None = None,
) -> HostedRuntime:
    """``has_homes``: the database knows of volumes, so an empty data directory is a disk not mounted."""
    job_env = {key: value for key, value in os.environ.items() if key.startswith(STORE_CREDENTIALS)}
    match settings.runtime.kind:
        case RuntimeKind.LOCAL:
            return await _local(
                settings, installation, job_env=job_env, has_homes=has_homes, on_death=on_death
            )
        case RuntimeKind.DOCKER:
            # Imported where it is chosen: whoever runs local processes pays nothing for a Docker client.
            from codehub.server.docker_runtime import build_docker_runtime

            return await build_docker_runtime(
                settings, str(installation.id), job_env=job_env, has_homes=has_homes, on_death=on_death
            )
        case _:
            assert_never(settings.runtime.kind)


async def _local(
    settings: Settings,
    installation: InstallationRecord,
    *,
    job_env: Mapping[str, str],
    has_homes: bool,
    on_death: Callable[[UUID], None] | None,
) -> LocalRuntime:
    images = dict(settings.runtime.local_images or default_images())
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
        on_death=on_death,
    )
    await runtime.prepare(create=not has_homes)
    return runtime
