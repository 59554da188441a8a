"""Sandbox with bubblewrap: a workspace reaches nothing of CodeHub but its home.

Rules, independent of where files happen to be:

* the whole machine is read-only, except the home and the directory of the workspace's own socket: CodeHub's
  program, too, cannot be changed from inside;
* where programs keep sockets and temporary files (``/tmp``, ``/var/tmp``, ``/run``, ``XDG_RUNTIME_DIR``,
  shared memory) there is an empty directory of the workspace's own, so a directory of CodeHub's is hidden
  wherever in them it is, and so are other people's sockets (a Docker engine, a database that trusts by user);
* what CodeHub keeps elsewhere (the data directory, local archives, login files) is covered by an empty directory;
  of the data directory only the installed IDEs are shown, read-only;
* processes are in pid and IPC namespaces of their own, with no capability: as root a workspace could
  otherwise unmount the covers. Devices are a minimal set, without disks.

The network is the machine's. This keeps people who share a machine out of each other's homes and out of
CodeHub; it is no protection against untrusted users. ``sandbox_check`` tests all of it from inside.

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

IDES = "ides"
"""Where in the data directory IDEs are that CodeHub installed. Workspaces read it."""
_FRESH = ("/tmp", "/var/tmp", "/run")
_NAME_RESOLUTION = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf", "/run/nscd")
PACKAGE = Path(__file__).parents[2]
_DEVICES = ("/dev/dri", "/dev/kfd", "/dev/kvm", "/dev/fuse", *sorted(glob.glob("/dev/nvidia*")))


@dataclass(frozen=True)
class Sandbox:
    """Builds bubblewrap command lines.

    ``hidden``: directories of CodeHub's own. Missing ones are created if possible.
    """

    bubblewrap: str
    data_dir: Path
    hidden: tuple[Path, ...] = ()

    def prefix(self, home: Path, *, command: Sequence[str] = (), own: Sequence[Path] = ()) -> list[str]:
        """The bubblewrap prefix of ``command``. Files its words name stay readable.

        ``own``: directories the workspace may write to besides its home, in hidden ones or not.
        """
        fresh = fresh_directories()
        prefix = [self.bubblewrap, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
        prefix += ["--unshare-pid", "--unshare-ipc", "--cap-drop", "ALL"]
        for device in _DEVICES:
            prefix += ["--dev-bind-try", device, device]
        for directory in fresh:
            prefix += ["--tmpfs", str(directory)]
        for kept in (*_NAME_RESOLUTION, *_programs(command, fresh)):
            prefix += ["--ro-bind-try", kept, kept]
        covered = self.covered()
        for cover in covered:
            prefix += ["--tmpfs", str(cover)]
        for program in self.shown():
            if _is_below(Path(program), (*fresh, *covered)):
                prefix += ["--ro-bind", program, program]
        home = home.resolve()
        for path in (home, *(each.resolve() for each in own)):
            prefix += ["--bind", str(path), str(path)]
        return [*prefix, "--chdir", str(home), "--"]

    def shown(self) -> set[str]:
        """What stays readable also inside the data directory or a fresh one."""
        ides = self.data_dir.resolve() / IDES
        return shown_programs() | ({str(ides)} if ides.is_dir() else set())

    def covered(self) -> list[Path]:
        """Real directories to cover.

        One that cannot be created now is never created by us later.
        """
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


def shown_programs() -> set[str]:
    """Programs that every sandbox shows.

    The Python environment, and CodeHub's package, which holds the program that SSH starts in a sandbox. All of the
    package: a part of it would have parents to write to.
    """
    return {sys.prefix, sys.base_prefix, str(PACKAGE)}


def find_bubblewrap() -> str | None:
    """Path of bubblewrap. ``sandbox_check`` tests whether it works here.

    Namespaces may be switched off.
    """
    return shutil.which("bwrap")


def fresh_directories() -> list[Path]:
    """Directories that are empty and private in each sandbox."""
    directories = [
        Path(directory).resolve() for directory in (*_FRESH, os.environ.get("XDG_RUNTIME_DIR") or "/run")
    ]
    return [
        directory for directory in dict.fromkeys(directories) if directory.is_dir() and directory != Path("/")
    ]


def _programs(command: Sequence[str], fresh: Sequence[Path]) -> list[str]:
    """Paths a command line names inside the fresh places: it could not run otherwise.

    A program in ``…/bin`` is shown with its installation, which it needs to run.
    """
    words = [word.rpartition("=")[2] for word in command]
    named = [word for word in words if os.path.isabs(word) and _is_below(Path(word), fresh)]
    program = Path(command[0]) if command else Path("/")
    installation = program.parent.parent
    if program.parent.name == "bin" and _is_below(installation, fresh):  # never a fresh place itself
        return [str(installation), *named]
    return named


def _is_below(path: Path, directories: Iterable[Path]) -> bool:
    real = path.resolve()
    return not set(real.parents).isdisjoint(directories)
