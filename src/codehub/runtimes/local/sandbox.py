"""Bubblewrap, where it works: a workspace then reaches its own home and nothing of CodeHub's.

The rule, not a list of what happens to lie where:

* the whole machine is read-only, the home and the directory of the workspace's own socket apart: CodeHub's
  program, too, cannot be changed from inside;
* where programs keep sockets and passing things (``/tmp``, ``/var/tmp``, ``/run``, ``XDG_RUNTIME_DIR``,
  shared memory) there is an empty place of the workspace's own, so a directory of CodeHub's is out of sight
  wherever in them it is, and so are other people's sockets (a Docker engine, a database that trusts by user);
* what CodeHub keeps elsewhere (the data directory, local archives, login files) is covered by emptiness;
* processes are in pid and IPC namespaces of their own, with no capability: as root a workspace could
  otherwise take the covers off. Devices are the harmless ones, without disks.

The network is the machine's. This keeps people who share a machine out of each other's homes and out of
CodeHub; it is no wall against strangers. ``sandbox_check`` tries all of it from inside.

``--die-with-parent`` is not used: workspaces outlive CodeHub. The recorded process is bubblewrap's
outer one; ``processes.members`` finds the rest by session and mark.
"""

import glob
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

_FRESH = ("/tmp", "/var/tmp", "/run")
_NAME_RESOLUTION = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd")
_DEVICES = ("/dev/dri", "/dev/kfd", "/dev/kvm", "/dev/fuse", *sorted(glob.glob("/dev/nvidia*")))


@dataclass(frozen=True)
class Sandbox:
    """``hidden``: directories of CodeHub's own, wherever they are. Those that can be made are made."""

    bubblewrap: str
    data_dir: Path
    hidden: tuple[Path, ...] = ()

    def prefix(self, home: Path, *, command: Sequence[str] = (), own: Sequence[Path] = ()) -> list[str]:
        """What to put before ``command``. What its words name stays in sight, to read.

        ``own``: directories the workspace may write to besides its home, in hidden ones or not.
        """
        fresh = fresh_places()
        prefix = [self.bubblewrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        prefix += ["--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
        for device in _DEVICES:
            prefix += ["--dev-bind-try", device, device]
        for place in fresh:
            prefix += ["--tmpfs", str(place)]
        for kept in (*_NAME_RESOLUTION, *_programs(command, fresh)):
            prefix += ["--ro-bind-try", kept, kept]
        for cover in self.covered():
            prefix += ["--tmpfs", str(cover)]
        # An environment inside the data directory, or beside it in a fresh place, is needed all the same.
        for program in {sys.prefix, sys.base_prefix}:
            if _is_below(Path(program), (*fresh, *self.covered())):
                prefix += ["--ro-bind", program, program]
        home = home.resolve()
        for path in (home, *(each.resolve() for each in own)):
            prefix += ["--bind", str(path), str(path)]
        return [*prefix, "--chdir", str(home), "--"]

    def covered(self) -> list[Path]:
        """Real directories to cover. One that cannot be made now cannot be made by us later, either."""
        found: list[Path] = []
        for path in (self.data_dir, *self.hidden):
            try:
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError:
                if not path.is_dir():
                    continue
            if not _is_below(path, found) and path.resolve() not in found:
                found.append(path.resolve())
        return found


def find_bubblewrap() -> str | None:
    """Its path. Whether it works here is found out by ``sandbox_check``: namespaces may be switched off."""
    return shutil.which("bwrap")


def fresh_places() -> list[Path]:
    """Directories a workspace gets for itself, empty."""
    places = [Path(place).resolve() for place in (*_FRESH, os.environ.get("XDG_RUNTIME_DIR") or "/run")]
    return [place for place in dict.fromkeys(places) if place.is_dir() and place != Path("/")]


def _programs(command: Sequence[str], fresh: Iterable[Path]) -> list[str]:
    """What a command line names inside the fresh places: it could not be run otherwise."""
    words = [word.rpartition("=")[2] for word in command]
    return [word for word in words if os.path.isabs(word) and _is_below(Path(word), fresh)]


def _is_below(path: Path, places: Iterable[Path]) -> bool:
    return any(path.resolve().is_relative_to(place) and path.resolve() != place for place in places)
