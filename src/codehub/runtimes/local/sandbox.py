"""Bubblewrap, where it is installed and works: a workspace then sees its own home and no other.

The data directory (other homes, archives, the embedded database) and the sockets of all IDEs are covered by
empty directories, and what is the workspace's own is put back in: its volume and the place of its socket.
Processes are in a pid namespace of their own. Everything else of the machine stays visible, the network too.
This keeps a trusted team out of each other's homes by accident; it is no wall against strangers.

``--die-with-parent`` is not used: workspaces outlive CodeHub. The recorded process is bubblewrap's
outer one; ``processes.members`` finds the rest by session and mark.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

_TRIAL_SECONDS = 5


def find_bubblewrap() -> str | None:
    """Its path if it can really make a sandbox here; unprivileged user namespaces may be switched off."""
    path = shutil.which("bwrap")
    if path is None:
        return None
    with tempfile.TemporaryDirectory() as trial:
        home = Path(trial) / "home"
        home.mkdir()
        command = [*sandbox_prefix(path, hidden=[Path(trial)], home=home), "/bin/sh", "-c", ":"]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_TRIAL_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
    return path if done.returncode == 0 else None


def sandbox_prefix(
    bubblewrap: str, *, hidden: Sequence[Path], home: Path, own: Sequence[Path] = ()
) -> list[str]:
    """What to put before a command. ``own``: directories to see besides the home, in hidden ones or not."""
    prefix = [bubblewrap, "--bind", "/", "/", "--dev-bind", "/dev", "/dev"]
    prefix += ["--unshare-pid", "--proc", "/proc"]
    for directory in hidden:
        prefix += ["--tmpfs", str(directory)]
    for directory in (home, *own):
        prefix += ["--bind", str(directory), str(directory)]
    return [*prefix, "--chdir", str(home), "--"]
