"""The directory an installation lives in: who may use it, and what lies where.

    postgres/   the embedded database          volumes/    homes of local workspaces
    redis/      where the embedded Redis runs  archives/   the default archive store
    logs/       what the embedded servers say  run/        sockets
    lock        held by the process that runs the embedded servers

The lock is an ``flock``: the kernel gives it back when the process ends, however it ends, so there is no
stale lock to clear. Whoever holds it may stop and clear away what it finds of the embedded servers.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codehub.domain.errors import CodeHubError

LONGEST_SOCKET_DIR = 85
"""sun_path holds 107 bytes; the longest name below it is ``/pg/.s.PGSQL.5432`` or an API socket's."""


class DataDirUnusableError(CodeHubError):
    """The data directory cannot be used as it is."""

    code = "data_dir_unusable"


class DataDirInUseError(CodeHubError):
    """Another CodeHub runs its embedded servers from this data directory."""

    code = "data_dir_in_use"


@dataclass(frozen=True)
class DataDir:
    path: Path

    @property
    def postgres(self) -> Path:
        return self.path / "postgres"

    @property
    def redis(self) -> Path:
        return self.path / "redis"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """Where sockets are. A link to a shorter path when the data directory's own is too long for one."""
        return self.path / "run"

    @property
    def lock_file(self) -> Path:
        return self.path / "lock"

    def sockets(self) -> Path:
        """The real directory behind ``run``, short enough for a socket's name."""
        return self.run.resolve()

    def prepare(self) -> None:
        """Make the directory and what is always there. Safe to repeat."""
        with _explained(self.path):
            if not self.path.exists():
                self.path.mkdir(parents=True, exist_ok=True)
                # Others may pass through, not look: as root the database runs as another user.
                self.path.chmod(0o711 if os.geteuid() == 0 else 0o700)
            for directory in (self.logs, self.redis):
                directory.mkdir(mode=0o700, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass  # a directory may be ours and still not writable: a full or read-only disk

    def prepare_sockets(self) -> Path:
        """Make the directory for sockets and return it. For a process that embeds no server."""
        self.prepare()
        with _explained(self.path):
            self._prepare_run()
        return self.sockets()

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the one that runs the embedded servers here. Raises ``DataDirInUseError``."""
        with _explained(self.path):
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
                raise DataDirInUseError(
                    f"Another CodeHub{f' (process {holder})' if holder else ''} already runs in {self.path}. "
                    "Stop that one, or set CODEHUB_DATA_DIR (and CODEHUB_BIND) to run a second one beside it."
                ) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)  # for the sentence above; decides nothing
            with _explained(self.path):
                self._prepare_run()
            try:
                yield
            finally:
                self._clear_run()
        finally:
            os.close(descriptor)

    def _prepare_run(self) -> None:
        if len(os.fsencode(self.run)) <= LONGEST_SOCKET_DIR:
            if self.run.is_symlink():
                self.run.unlink()  # the data directory was moved to a shorter path
            self.run.mkdir(exist_ok=True)
            self.run.chmod(0o711 if os.geteuid() == 0 else 0o700)
            return
        short = _short_directory(self.path)
        if self.run.is_symlink() and Path(os.readlink(self.run)) == short:
            return
        if self.run.is_symlink():
            self.run.unlink()
        elif self.run.exists():  # the data directory was moved to a longer path
            shutil.rmtree(self.run)
        self.run.symlink_to(short)

    def _clear_run(self) -> None:
        """Leave nothing behind outside the data directory. A killed process does; the next one uses it."""
        if self.run.is_symlink():
            shutil.rmtree(self.run.resolve(), ignore_errors=True)
            self.run.unlink(missing_ok=True)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataDirUnusableError(
            f"The data directory {path} cannot be used: {error.strerror or error}. "
            "Make it writable for this user, or set CODEHUB_DATA_DIR to a directory that is."
        ) from error


def _short_directory(path: Path) -> Path:
    """A private directory with a short name, the same one for the same data directory every time."""
    name = f"codehub-{os.geteuid()}-{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}"
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    for parent in (runtime, "/tmp"):
        if not parent or len(os.fsencode(parent)) + len(name) + 1 > LONGEST_SOCKET_DIR:
            continue
        directory = Path(parent) / name
        try:
            directory.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
        except OSError:
            continue
        # /tmp belongs to everybody: a directory of that name may have been laid out for us by a stranger.
        found = directory.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
            return directory
        raise OSError(f"{directory} belongs to somebody else")
    raise OSError("the path is too long for sockets, and neither XDG_RUNTIME_DIR nor /tmp can stand in")
