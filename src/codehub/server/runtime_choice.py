"""Which runtime this installation has: with ``wiring``, the only place that names concrete ones.

Apart from ``wiring`` because the proxy's process needs a runtime (for addresses) and no API.
"""

import os
import sys
from collections.abc import Callable
from uuid import UUID

from codehub.runtimes.local.images import default_images
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.server.settings import RuntimeKind, Settings
from codehub.server.variables import SettingsError
from codehub.store.installation import InstallationRecord

JOB_COMMAND = (sys.executable, "-m", "codehub.archives.job")
STORE_CREDENTIALS = ("AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_")
"""Prefixes of the variables a storage job needs to reach its store; workspaces get none of them."""


async def build_runtime(
    settings: Settings,
    installation: InstallationRecord,
    *,
    has_homes: bool,
    on_death: Callable[[UUID], None] | None = None,
) -> LocalRuntime:
    """``has_homes``: the database knows of volumes, so an empty data directory is a disk not mounted."""
    if settings.runtime.kind is not RuntimeKind.LOCAL:
        raise SettingsError(f"CODEHUB_RUNTIME={settings.runtime.kind.value} is not built yet; use local.")
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
        job_env={key: value for key, value in os.environ.items() if key.startswith(STORE_CREDENTIALS)},
        on_death=on_death,
    )
    await runtime.prepare(create=not has_homes)
    return runtime
