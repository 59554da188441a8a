"""Test from inside a sandbox what a workspace could reach of CodeHub.

Runs at every start of the local runtime, which refuses a sandbox that leaks, and in ``codehub doctor``. The
script below runs exactly where a workspace would, tries to unmount the covers, walks the covered directories,
connects to CodeHub's sockets, and writes to its program.
"""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from codehub.domain.errors import CodeHubError
from codehub.runtimes.local.sandbox import PACKAGE, Sandbox, find_bubblewrap

_SECONDS = 20
NOT_INSTALLED = "bubblewrap (the program bwrap) is not installed"

_SCRIPT = r"""
import ctypes, json, os, socket, sys
given = json.load(sys.stdin)
home, leaks = given["home"], []
ways = [home + "/", *given["shown"]]
libc = ctypes.CDLL(None)
for cover in given["covered"]:
    libc.umount2(os.fsencode(cover), 2)
for cover in given["covered"]:
    for place, directories, files in os.walk(cover):
        if (place + "/").startswith(tuple(ways)):
            directories.clear()
            continue
        leaks += [os.path.join(place, name) for name in files]
        below = [os.path.join(place, name) for name in directories]
        leaks += [one for one in below if not any(way.startswith(one + "/") for way in ways)]
for path in given["sockets"]:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
            leaks.append("a connection to " + path)
        except OSError:
            pass
is_apart = os.readlink("/proc/self/ns/pid") != given["pid_namespace"]
if not is_apart or os.readlink("/proc/self") != str(os.getpid()):
    leaks.append("processes outside, with their environment")
for path in given["program"]:
    if os.access(path, os.W_OK):
        leaks.append("writing to " + path)
try:
    open(os.path.join(home, ".trial"), "w").close()
except OSError as error:
    sys.exit("the home cannot be written: %s" % error)
print(json.dumps(leaks[:20]))
"""


class SandboxLeaksError(CodeHubError):
    """A workspace could reach files or sockets of CodeHub."""

    code = "sandbox_leaks"


class NoSandboxError(CodeHubError):
    """No sandbox can be made here. The message is the reason, in bubblewrap's words if it has any."""

    code = "no_sandbox"


@dataclass(frozen=True)
class SandboxResult:
    """Result of the test.

    ``works``: a sandbox could be made at all. ``leaks``: what was reached from inside it.
    """

    works: bool
    leaks: tuple[str, ...] = ()
    detail: str = ""


def make_sandbox(data_dir: Path, hidden: tuple[Path, ...]) -> Sandbox:
    """Make and test a sandbox. Blocking.

    Raises where none can be made, and for one that leaks: a workspace in it could take over CodeHub.
    """
    path = find_bubblewrap()
    if path is None:
        raise NoSandboxError(NOT_INSTALLED)
    sandbox = Sandbox(path, data_dir, hidden)
    result = check_sandbox(sandbox)
    if result.leaks:
        raise SandboxLeaksError(
            "A workspace could reach files of CodeHub from inside its sandbox: "
            f"{', '.join(result.leaks[:5])}. CodeHub does not start like this; `codehub doctor` says more."
        )
    if not result.works:
        raise NoSandboxError(bubblewrap_failed(result.detail))
    return sandbox


def bubblewrap_failed(detail: str) -> str:
    return f'bubblewrap is installed and cannot make a sandbox ("{detail}")'


def check_sandbox(sandbox: Sandbox) -> SandboxResult:
    """Test a sandbox. Blocking. The data directory must exist; no test file remains."""
    home = Path(tempfile.mkdtemp(prefix=".trial-", dir=sandbox.data_dir)).resolve()
    covered = [*sandbox.covered(), (sandbox.data_dir / "sockets").resolve()]
    question = {
        "home": str(home),
        "covered": [str(path) for path in covered],
        "sockets": [path for place in covered for path in _sockets(place)],
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
        "shown": [path + "/" for path in sandbox.shown()],
        "program": [str(PACKAGE), sys.prefix],
    }
    command = [sys.executable, "-I", "-S", "-c", _SCRIPT]
    try:
        done = subprocess.run(
            [*sandbox.prefix(home, command=command), *command],
            input=json.dumps(question),
            env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            return SandboxResult(works=False, detail=said[-1])
        return SandboxResult(works=True, leaks=tuple(json.loads(done.stdout)))
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return SandboxResult(works=False, detail=str(error))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _sockets(directory: Path) -> list[str]:
    """Listening sockets in a directory and one level below."""
    found = []
    for path in (*directory.glob("*"), *directory.glob("*/*"), *directory.glob("*/pg/*")):
        try:
            if stat.S_ISSOCK(path.lstat().st_mode) and _answers(path):
                found.append(str(path))
        except OSError:
            continue
    return found


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        probe.connect(str(path))
    return True
