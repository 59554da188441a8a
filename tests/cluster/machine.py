"""What a cluster changes on this machine outside of its directory, and how it is put back.

Kernel settings the kubelet insists on are saved before the first cluster starts, and restored when the last is gone.
"""

import json
import os
import time
from contextlib import suppress
from pathlib import Path

from tests.cluster.settings import HOME

_KERNEL_SETTINGS = (
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "net/ipv4/ip_forward",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_SAVED = HOME / "kernel-settings.json"
_CGROUPS = Path("/sys/fs/cgroup")
_SECONDS = 20


def save_kernel_settings() -> None:
    """Remember this machine's own settings, unless a cluster that runs has done so. Let it forward packets."""
    HOME.mkdir(parents=True, exist_ok=True)
    if not _SAVED.exists():
        settings = {name: _kernel(name).read_text() for name in _KERNEL_SETTINGS if _kernel(name).exists()}
        new = _SAVED.with_suffix(".new")
        new.write_text(json.dumps(settings))
        new.rename(_SAVED)
    _kernel("net/ipv4/ip_forward").write_text("1")


def restore_kernel_settings() -> None:
    """Put them back and remove the directory of all clusters, if none is left."""
    if not HOME.exists() or any(each.is_dir() for each in HOME.iterdir()):
        return
    if _SAVED.exists():
        for name, value in json.loads(_SAVED.read_text()).items():
            with suppress(OSError):
                _kernel(name).write_text(value)
        _SAVED.unlink()
    HOME.rmdir()


def make_cgroup(name: str) -> None:
    """Make this control group in every hierarchy, for a kubelet to fill: it does not make its own root."""
    if (_CGROUPS / "cgroup.controllers").exists():
        _make_unified_cgroup(name)
        return
    for hierarchy in (each for each in _CGROUPS.iterdir() if (each / "cgroup.procs").exists()):
        (hierarchy / name).mkdir(parents=True, exist_ok=True)
    for folder in reversed([Path(name), *Path(name).parents[:-1]]):
        for setting in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, and then nothing can run in it
            file = _CGROUPS / "cpuset" / folder / setting
            if file.exists():
                file.write_text((file.parent.parent / setting).read_text())


def _make_unified_cgroup(name: str) -> None:
    """Version 2: one hierarchy, where a parent decides which controllers its children have."""
    folder = _CGROUPS
    for part in ("", *Path(name).parts):
        folder = folder / part
        folder.mkdir(exist_ok=True)
        for controller in (folder / "cgroup.controllers").read_text().split():
            with suppress(OSError):  # one that this machine keeps for itself
                (folder / "cgroup.subtree_control").write_text(f"+{controller}")


def remove_cgroups(name: str) -> None:
    """Remove the control groups of a cluster, whose processes have been killed."""
    for root in {*_CGROUPS.glob(name), *_CGROUPS.glob(f"*/{name}")}:
        for folder, _, _ in os.walk(root, topdown=False):
            _remove_cgroup(Path(folder))


def _remove_cgroup(folder: Path) -> None:
    """The kernel needs a moment to take the dead out."""
    deadline = time.monotonic() + _SECONDS
    while True:
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _kernel(name: str) -> Path:
    return Path("/proc/sys") / name
