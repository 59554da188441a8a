"""Configure a command's log: to standard error. Standard output is for the result."""

import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from codehub.server.settings.tree import Settings


def configure_logs(settings: "Settings", *, level: str | None = None, stream: TextIO | None = None) -> None:
    """Configure logging.

    ``level`` replaces LOG_LEVEL: short commands log problems only. ``stream`` None: standard error.
    """
    from codehub.kit import logs
    from codehub.server.settings.logs import LogFormat

    chosen = settings.log.format
    json = chosen is LogFormat.JSON if chosen is not None else not (stream or sys.stderr).isatty()
    logs.configure(
        json=json, level=level or settings.log.level, node_id=settings.coordinator.node_id, stream=stream
    )
