"""Send the log of ``codehub up`` to a file where a person watches the terminal.

The file is ``logs/codehub.log`` in the data directory. Descriptor 2 becomes the file, so that the proxy's
processes and a crashing interpreter write there too; Python's ``sys.stderr`` stays the terminal, for what a
person is to read. With LOG_FORMAT set, or standard error in a file or pipe, nothing changes: containers and
services read the log from there.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codehub.cli.log_setup import configure_logs

if TYPE_CHECKING:
    from codehub.server.settings.tree import Settings

LARGEST_BYTES = 10 * 1024 * 1024


def log_to_file(settings: "Settings") -> Path | None:
    """Configure the log; the file it goes to, None: standard error."""
    if settings.log.format is not None or not sys.stderr.isatty():
        configure_logs(settings)
        return None
    from codehub.server.data_dir import DataDir

    data_dir = DataDir(settings.data_dir)
    data_dir.prepare()
    path = data_dir.logs / "codehub.log"
    if path.exists() and path.stat().st_size > LARGEST_BYTES:
        path.replace(path.with_name("codehub.log.1"))
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    terminal = os.dup(2)
    os.dup2(file, 2)
    os.close(file)
    sys.stderr = os.fdopen(
        terminal, "w", encoding=sys.stderr.encoding, errors="backslashreplace", buffering=1
    )
    configure_logs(settings, stream=os.fdopen(os.dup(2), "a", encoding="utf-8", buffering=1))
    return path
