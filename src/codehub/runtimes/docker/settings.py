"""Settings of the Docker runtime, as the wiring passes them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from codehub.runtimes.base import ResourceLimits

DEFAULT_ENGINE = "unix:///var/run/docker.sock"
JOB_COMMAND = ("python3", "-m", "codehub.archives.job")


@dataclass(frozen=True)
class JobSettings:
    """Settings of storage jobs, which run CodeHub's own image with one volume.

    ``archive_source``: what the engine mounts at the directory of a ``file://`` store: a path on *its*
    machine or the name of a volume. None: the directory itself, right when CodeHub runs beside the engine.
    ``network``: which network reaches an object store; ``file://`` stores get none at all.
    """

    image: str
    archive_url: str
    storage_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    command: Sequence[str] = JOB_COMMAND
    archive_source: str | None = None
    network: str = "bridge"
    limits: ResourceLimits = field(default_factory=lambda: ResourceLimits(pids=256))


@dataclass(frozen=True)
class DockerSettings:
    """Settings of workspaces' containers.

    ``images``: what may be started, the first is the default; empty: any.

    ``network``: an existing network to use instead of the private one this runtime makes. Whether
    workspaces can reach each other is then up to that network.
    ``default_limits`` apply where a start names none.
    """

    engine_url: str = DEFAULT_ENGINE
    images: Sequence[str] = ()
    network: str | None = None
    volume_driver: str = "local"
    default_limits: ResourceLimits = field(default_factory=ResourceLimits)
    base_path: str = "/w/{id}/"
    stop_grace_seconds: int = 10
    settle_seconds: float = 1.0
    call_seconds: float = 60.0
