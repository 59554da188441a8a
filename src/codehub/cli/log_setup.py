"""Where a command's log goes: to standard error, always. Standard output is for the answer."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codehub.server.settings.tree import Settings


def configure_logs(settings: "Settings", *, level: str | None = None) -> None:
    """``level`` instead of LOG_LEVEL: a command that is over in a second tells no story, only troubles."""
    from codehub.kit import logs
    from codehub.server.settings.tree import LogFormat

    chosen = settings.log.format
    json = chosen is LogFormat.JSON if chosen is not None else not sys.stderr.isatty()
    logs.configure(json=json, level=level or settings.log.level, node_id=settings.coordinator.node_id)
