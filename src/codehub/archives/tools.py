"""Find and check the tools of a storage job: GNU tar, and Landlock if available.

``codehub doctor`` prints ``check_tools``. Everything is looked up once per process; a storage job is
short-lived, so a tool installed meanwhile is found by the next one.
"""

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from codehub.archives.sandbox import NEEDED_VERSION, sandbox_version
from codehub.domain.errors import EffectError, FailureCode

_PROBE_SECONDS = 10


@dataclass(frozen=True)
class ToolReport:
    """One line of ``codehub doctor``."""

    name: str
    ok: bool
    required: bool
    detail: str  # version or path; what to do about it when missing


def check_tools() -> list[ToolReport]:
    return [_check_tar(), _check_sandbox()]


@cache
def find_tar() -> str:
    """Return the path of GNU tar. Raises ``TOOL_MISSING``.

    ``tar``, or ``gtar`` where ``tar`` is another one.
    """
    for name in ("tar", "gtar"):
        path = shutil.which(name)
        if path is not None and "GNU tar" in _version_of(path):
            return path
    raise EffectError(
        FailureCode.TOOL_MISSING,
        "GNU tar was not found. Install the package `tar` (on macOS: `gnu-tar`) and try again.",
        tool="tar",
    )


def _check_tar() -> ToolReport:
    try:
        path = find_tar()
    except EffectError as error:
        return ToolReport(name="tar", ok=False, required=True, detail=error.message)
    return ToolReport(name="tar", ok=True, required=True, detail=f"{_version_of(path)} ({path})")


def _check_sandbox() -> ToolReport:
    version = sandbox_version()
    if version >= NEEDED_VERSION:
        return ToolReport(name="landlock", ok=True, required=False, detail=f"version {version}")
    detail = "this kernel has no Landlock (Linux 5.19 or newer): archives are unpacked without a sandbox"
    return ToolReport(name="landlock", ok=False, required=False, detail=detail)


def _version_of(path: str) -> str:
    try:
        finished = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return finished.stdout.partition("\n")[0]
