"""The local-process runtime. Start reading at ``runtime``; ``layout`` says where everything lies."""

from codehub.runtimes.local.images import default_images
from codehub.runtimes.local.runtime import LocalRuntime

__all__ = ["LocalRuntime", "default_images"]
