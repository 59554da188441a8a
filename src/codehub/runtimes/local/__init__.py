"""Local runtime: workspaces as processes. Start at ``runtime``; files: ``layout``."""

from codehub.runtimes.local.images import default_images
from codehub.runtimes.local.runtime import LocalRuntime

__all__ = ["LocalRuntime", "default_images"]
