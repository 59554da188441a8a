"""Directory of CodeHub's sockets: ``run``, or a short private substitute.

A socket's name has at most 107 bytes, and the addresses of PostgreSQL and Redis are read by several parsers
that disagree about spaces, commas and letters beyond ASCII. A data directory with such a path gets a
directory elsewhere (below ``XDG_RUNTIME_DIR`` or ``/tmp``), and ``sockets`` in the data directory is a link
to it, so that every replica and every command finds the same one. It holds no persistent data.

**Every process that uses it holds a shared flock on it.** The last one to leave, which gets the lock exclusively,
removes it. A killed process leaves it to the next one, which finds it through the link. Entering and leaving are
serialized by an flock on the data directory itself.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from codehub.server.root_powers import private_mode

LONGEST = 85
"""sun_path holds 107 bytes; the longest name below it is ``/pg/.s.PGSQL.5432`` or an API socket's."""

_PLAIN = re.compile(r"[A-Za-z0-9_./-]*")


def find(data_dir: Path) -> Path:
    """Where sockets are or would be now. Creates nothing."""
    if _fits(data_dir / "run"):
        return data_dir / "run"
    return _linked(data_dir) or data_dir / "sockets"


@contextlib.contextmanager
def in_use(data_dir: Path) -> Iterator[Path]:
    """Hold the directory for the length of the block. Any number of processes at once."""
    if _fits(data_dir / "run"):
        (data_dir / "run").mkdir(exist_ok=True)
        (data_dir / "run").chmod(private_mode())
        yield data_dir / "run"
        return
    directory, descriptor = _enter(data_dir)
    try:
        yield directory
    finally:
        _leave(data_dir, directory, descriptor)


def _enter(data_dir: Path) -> tuple[Path, int]:
    with _one_at_a_time(data_dir):
        directory = _linked(data_dir) or _make(data_dir)
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return directory, descriptor


def _leave(data_dir: Path, directory: Path, descriptor: int) -> None:
    with _one_at_a_time(data_dir):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A crash between these two leaves a dangling link, which the next process replaces.
            shutil.rmtree(directory, ignore_errors=True)
            (data_dir / "sockets").unlink(missing_ok=True)
        except BlockingIOError:
            pass  # another process uses it
        finally:
            os.close(descriptor)


def _make(data_dir: Path) -> Path:
    directory = Path(tempfile.mkdtemp(prefix=_prefix(data_dir), dir=_parent(data_dir)))
    directory.chmod(private_mode())
    # A crash right here leaves an empty directory that nothing refers to.
    (data_dir / "sockets").unlink(missing_ok=True)  # dangling, or the data directory was moved
    (data_dir / "sockets").symlink_to(directory)
    return directory


@contextlib.contextmanager
def _one_at_a_time(data_dir: Path) -> Iterator[None]:
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _linked(data_dir: Path) -> Path | None:
    """The directory the link names, if it is ours, closed to others, and made for this data directory."""
    try:
        directory = Path(os.readlink(data_dir / "sockets"))
        found = directory.lstat()
    except OSError:
        return None
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o066
    return directory if is_ours and directory.name.startswith(_prefix(data_dir)) else None


def _prefix(data_dir: Path) -> str:
    return f"codehub-{hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:12]}-"


def _parent(data_dir: Path) -> str:
    for parent in (os.environ.get("XDG_RUNTIME_DIR", ""), "/tmp"):
        name = Path(parent) / (_prefix(data_dir) + "12345678")
        if parent and _fits(name) and os.access(parent, os.W_OK | os.X_OK):
            return parent
    raise OSError("its path does not suit sockets, and neither XDG_RUNTIME_DIR nor /tmp can stand in")


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST and _PLAIN.fullmatch(str(path)) is not None
