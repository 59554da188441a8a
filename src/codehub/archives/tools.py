"""The programs a storage job needs: GNU tar always, bubblewrap where it is to be had.

``check_tools`` is what ``codehub doctor`` prints. Everything is looked up once per process; a storage job
is short-lived, so a tool installed meanwhile is found by the next one.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from codehub.domain.errors import EffectError, FailureCode

_PROBE_SECONDS = 10
_SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/nix/store")
_TAR_CAPABILITIES = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID")


@dataclass(frozen=True)
class ToolReport:
    """One line for the doctor."""

    name: str
    ok: bool
    required: bool
    detail: str  # version or path; what to do about it when missing


def check_tools() -> list[ToolReport]:
    return [_check_tar(), _check_bubblewrap()]


@cache
def find_tar() -> str:
    """The path of GNU tar (``tar``, or ``gtar`` where ``tar`` is another one). Raises ``TOOL_MISSING``."""
    for name in ("tar", "gtar"):
        path = shutil.which(name)
        if path is not None and "GNU tar" in _version_of(path):
            return path
    raise EffectError(
        FailureCode.TOOL_MISSING,
        "GNU tar was not found. Install the package `tar` (on macOS: `gnu-tar`) and try again.",
        tool="tar",
    )


@cache
def has_bubblewrap() -> bool:
    """Whether bubblewrap is there *and works*: inside many containers it may not make namespaces."""
    prefix = _sandbox_prefix(Path("/usr"), writable=False)
    if prefix is None:
        return False
    try:
        finished = subprocess.run(
            [*prefix, find_tar(), "--version"], capture_output=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return finished.returncode == 0


def sandboxed(command: Sequence[str], *, directory: Path, writable: bool) -> tuple[list[str], str]:
    """``command`` so that it reaches nothing but ``directory``, and the name it has in there.

    Without bubblewrap the command stays as it is. As an ordinary user the sandbox needs a user namespace,
    in which every other owner reads as "nobody": harmless when unpacking (only root can give files away),
    wrong in an archive that keeps owners by number. So packing as an ordinary user goes without.
    """
    prefix = _sandbox_prefix(directory, writable=writable) if os.geteuid() == 0 or writable else None
    if prefix is None or not has_bubblewrap():
        return list(command), str(directory)
    return [*prefix, *command], "/volume"


def _sandbox_prefix(directory: Path, *, writable: bool) -> list[str] | None:
    bubblewrap = shutil.which("bwrap")
    if bubblewrap is None:
        return None
    prefix = [bubblewrap, "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid"]
    prefix += ["--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if os.geteuid() == 0:
        # Root needs no user namespace, and in one it could not give files to their owners. bubblewrap
        # drops every capability; tar gets back the ones about files and none about the machine.
        for capability in _TAR_CAPABILITIES:
            prefix += ["--cap-add", capability]
    else:
        prefix += ["--unshare-user"]
    for system in _SYSTEM_DIRECTORIES:
        prefix += ["--ro-bind-try", system, system]
    return [*prefix, "--bind" if writable else "--ro-bind", str(directory), "/volume", "--"]


def _check_tar() -> ToolReport:
    try:
        path = find_tar()
    except EffectError as error:
        return ToolReport(name="tar", ok=False, required=True, detail=error.message)
    return ToolReport(name="tar", ok=True, required=True, detail=f"{_version_of(path)} ({path})")


def _check_bubblewrap() -> ToolReport:
    path = shutil.which("bwrap")
    if path is None:
        detail = "not installed: archives are unpacked without a sandbox. Install the package `bubblewrap`."
    elif not has_bubblewrap():
        detail = f"{path} cannot make namespaces here: archives are unpacked without a sandbox."
    else:
        return ToolReport(name="bubblewrap", ok=True, required=False, detail=f"{_version_of(path)} ({path})")
    return ToolReport(name="bubblewrap", ok=False, required=False, detail=detail)


def _version_of(path: str) -> str:
    try:
        finished = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout.partition("\n")[0]
