"""Find ``inside``, the program that CodeHub runs in workspaces.

It is built for each kind of machine by ``make inside``, from ``inside/`` at the top of the repository, and is in
every release. An installation from source without Go has none: it goes without SSH.
"""

import platform
from pathlib import Path

DIRECTORY = "/.codehub"
"""Where containers see it. Processes of the local runtime see it where it is installed."""
PROGRAM = f"{DIRECTORY}/inside"

_BUILT = Path(__file__).with_name("_inside")
_MACHINES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def find_inside(machine: str | None = None) -> Path | None:
    """The directory with ``inside`` for a kind of machine, by default this one; None: it was not built."""
    directory = _BUILT / _MACHINES.get(machine or platform.machine(), "unknown")
    return directory if (directory / "inside").is_file() else None
