"""Build the configured runtime: beside ``wiring``, the only place that names one.

Apart from ``wiring`` because the proxy's process needs a runtime (for addresses) and no API.
"""

import os
import sys
from collections.abc import Callable, Hashable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Protocol, assert_never
from urllib.parse import unquote, urlsplit
from uuid import UUID

import platformdirs
import structlog

from codehub.runtimes.base import Address, Runtime
from codehub.runtimes.local.images import default_images
from codehub.runtimes.local.runtime import LocalRuntime
from codehub.server.settings.tree import LocalSandbox, RuntimeKind, Settings
from codehub.server.settings.variables import SettingsError
from codehub.store.cluster.installation import InstallationRecord

log = structlog.get_logger(__name__)

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
        case _:
            assert_never(settings.runtime.kind)


async def _local(
    settings: Settings,
    installation: InstallationRecord,
    *,
    job_env: Mapping[str, str],
    has_homes: bool,
    on_exit: Callable[[UUID], None] | None,
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
        on_exit=on_exit,
        use_bubblewrap=settings.runtime.local_sandbox is not LocalSandbox.OFF,
        hidden=private_directories(settings),
    )
    await runtime.prepare(create=not has_homes)
    if not runtime.is_sandboxed:
        _accept_no_sandbox(settings)
    return runtime


def private_directories(settings: Settings) -> tuple[Path, ...]:
    """CodeHub's directories outside its data directory, hidden from workspaces.

    Archives and login files.
    """
    login_files = platformdirs.user_config_path("codehub", appauthor=False)
    if settings.archive_url.startswith("file://"):
        return login_files, Path(unquote(urlsplit(settings.archive_url).path))
    return (login_files,)


def serves_others(settings: Settings) -> bool:
    """Whether people other than this machine's users could have a workspace here."""
    hosts = [settings.http.bind.host, urlsplit(settings.http.base_url or "").hostname or "localhost"]
    return settings.http.base_domain is not None or not all(_is_loopback(host) for host in hosts)


def _accept_no_sandbox(settings: Settings) -> None:
    match settings.runtime.local_sandbox:
        case LocalSandbox.OFF:
            log.warning("workspaces run without a sandbox: whoever has one can take over this CodeHub")
        case LocalSandbox.AUTO if not serves_others(settings):
            log.warning("workspaces run without a sandbox (bubblewrap): do not let others in")
        case _:
            raise SettingsError(
                "Workspaces of the local runtime cannot be put into a sandbox on this machine, so whoever "
                "has one could take over CodeHub. Install bubblewrap (`codehub doctor` says more), "
                "use CODEHUB_RUNTIME=docker, or accept it with CODEHUB_LOCAL_SANDBOX=off."
            )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
