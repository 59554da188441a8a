"""Docker runtime: workspaces as containers of a Docker engine."""

from codehub.runtimes.docker.runtime import DockerRuntime
from codehub.runtimes.docker.settings import DockerSettings, JobSettings

__all__ = ["DockerRuntime", "DockerSettings", "JobSettings"]
