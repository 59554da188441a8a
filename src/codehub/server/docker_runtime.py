"""Build the Docker runtime from the settings."""

from collections.abc import Callable, Mapping
from uuid import UUID

from codehub.runtimes.base import ResourceLimits
from codehub.runtimes.docker import DockerRuntime, DockerSettings, JobSettings
from codehub.server.settings.tree import Settings
from codehub.server.settings.variables import SettingsError


async def build_docker_runtime(
    settings: Settings,
    installation_id: str,
    *,
    has_homes: bool,
    job_env: Mapping[str, str],
    on_exit: Callable[[UUID], None] | None = None,
) -> DockerRuntime:
    """Build the Docker runtime. Does not wait for the engine.

    ``has_homes``: the database knows of volumes, so an engine that has none of ours is the wrong one.
    ``job_env``: what storage jobs need to reach the archive store.
    """
    docker = settings.docker
    images = _default_first(docker.allowed_images, settings.runtime.default_image)
    runtime = DockerRuntime(
        installation_id,
        DockerSettings(
            engine_url=docker.host,
            images=images,
            network=docker.network,
            default_limits=ResourceLimits(cpus=docker.cpus, memory_bytes=docker.memory, pids=docker.pids),
        ),
        jobs=JobSettings(
            image=docker.job_image,
            archive_url=settings.archive_url,
            env=job_env,
            archive_source=docker.archive_source,
            network=docker.job_network,
        ),
        on_exit=on_exit,
    )
    await runtime.prepare(create=not has_homes)
    return runtime


def _default_first(images: tuple[str, ...], default: str | None) -> tuple[str, ...]:
    if default is None or not images:
        return images
    if default not in images:
        raise SettingsError(f"CODEHUB_DEFAULT_IMAGE={default} is not among DOCKER_IMAGES={','.join(images)}.")
    return (default, *(each for each in images if each != default))
