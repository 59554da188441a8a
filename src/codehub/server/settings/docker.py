"""Settings of the Docker runtime: one branch of the settings tree."""

import re
from typing import Annotated

from pydantic import BeforeValidator

from codehub.server.settings.variables import Group, variable

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?")
ANYTHING = "*"


def as_names(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(part.strip() for part in value.split(",") if part.strip())


def as_bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    found = _SIZE.fullmatch(value.strip().lower())
    if found is None:
        raise ValueError("a size such as 512m or 4g is needed")
    return int(found[1]) * _UNITS[found[2]]


class DockerGroup(Group):
    host: str = variable(
        "DOCKER_HOST",
        "unix:///var/run/docker.sock",
        meaning="Address of the Docker engine, with CODEHUB_RUNTIME=docker: unix://, tcp:// or ssh://",
    )
    images: Annotated[tuple[str, ...], BeforeValidator(as_names)] = variable(
        "DOCKER_IMAGES",
        ("codehub/code-server", "codehub/jupyterlab"),
        meaning="Images a workspace may run, separated by commas, the default first; *: any",
        shown="codehub/code-server,codehub/jupyterlab",
    )
    job_image: str = variable(
        "DOCKER_JOB_IMAGE",
        "codehub/job",
        meaning="Image that moves homes into archives and back; CodeHub's own image will do",
    )
    network: str | None = variable(
        "DOCKER_NETWORK",
        meaning="Existing network for workspaces; it then decides whether they can reach each other",
        shown="a private one is made, where they cannot",
    )
    job_network: str = variable(
        "DOCKER_JOB_NETWORK",
        "bridge",
        meaning="Network from which storage jobs reach the object store; unused with file:// archives",
    )
    archive_source: str | None = variable(
        "DOCKER_ARCHIVE_SOURCE",
        meaning="Directory on the engine's machine, or volume, that holds file:// archives",
        shown="the directory of ARCHIVE_URL",
    )
    cpus: float | None = variable(
        "DOCKER_LIMIT_CPUS", meaning="CPUs one workspace may use", shown="no limit", gt=0
    )
    memory: Annotated[int | None, BeforeValidator(as_bytes)] = variable(
        "DOCKER_LIMIT_MEMORY",
        4 * 1024**3,
        meaning="Memory one workspace may use",
        shown="4g",
        ge=16 * 1024**2,
    )
    pids: int | None = variable(
        "DOCKER_LIMIT_PIDS", 4096, meaning="Processes and threads one workspace may have", ge=16
    )

    @property
    def allowed_images(self) -> tuple[str, ...]:
        """Images that may be started. Empty: any."""
        return () if ANYTHING in self.images else self.images
