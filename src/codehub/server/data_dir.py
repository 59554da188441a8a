"""Data directory of an installation: its layout and its lock.

    postgres/   the embedded database          volumes/    homes of local workspaces
    redis/      where the embedded Redis runs  archives/   the default archive store
    logs/       of the embedded servers        run/        sockets, and records of local workspaces
    secrets/    passwords of the embedded servers
    cache/      what may be deleted at any time
    lock        held by the process that runs the embedded servers

The lock is an ``flock``: the kernel gives it back when the process ends, however it ends, so there is no
stale lock to remove. Its holder may stop and remove what an earlier process left of the embedded servers.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codehub.domain.errors import CodeHubError
from codehub.server import socket_dir
from codehub.server.root_powers import private_mode


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
    def secrets(self) -> Path:
        return self.path / "secrets"

    @property
    def run(self) -> Path:
        return self.path / "run"

    @property
    def lock_file(self) -> Path:
        return self.path / "lock"

    def sockets(self) -> Path:
        """The directory of CodeHub's sockets: ``run``, or its substitute (``socket_dir``)."""
        return socket_dir.find(self.path)

    def prepare(self) -> None:
        """Create the directory and check that it is writable. Idempotent."""
        with _explained(self.path):
            if not self.path.exists():
                self.path.mkdir(parents=True, exist_ok=True)
                self.path.chmod(private_mode())
            elif os.geteuid() == 0 and stat.S_IMODE(self.path.stat().st_mode) == 0o711:
                self.path.chmod(private_mode())  # earlier versions opened it for the database's user
            for directory in (self.logs, self.redis):
                directory.mkdir(mode=0o700, exist_ok=True)
            with tempfile.TemporaryFile(dir=self.path):
                pass  # a directory may be ours and still not writable: a full or read-only disk

    @contextlib.contextmanager
    def sockets_in_use(self) -> Iterator[Path]:
        """Hold the directory of sockets for the length of the block; created if missing."""
        self.prepare()
        with contextlib.ExitStack() as stack:
            with _explained(self.path):
                _move_run_back(self.run)
                directory = stack.enter_context(socket_dir.in_use(self.path))
            yield directory

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock for running embedded servers here. Raises ``DataDirInUseError``."""
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
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)  # for the message above only
            with self.sockets_in_use():
                yield
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataDirUnusableError(
            f"The data directory {path} cannot be used: {error.strerror or error}. "
            "Make it writable for this user, or set CODEHUB_DATA_DIR to a directory that is."
        ) from error


def _move_run_back(run: Path) -> None:
    """Move ``run`` back: earlier versions put it elsewhere if the path was long, locks and records included.

    A crash in here leaves ``run.moving``, which the next start removes or renames.
    """
    draft = run.with_name("run.moving")
    if run.is_symlink():
        shutil.rmtree(draft, ignore_errors=True)  # left by a process killed right here
        elsewhere = run.resolve()
        if elsewhere.is_dir() and elsewhere.stat().st_uid == os.geteuid():
            shutil.copytree(elsewhere, draft, symlinks=True, ignore=_sockets)
        run.unlink()
        if draft.exists():
            draft.chmod(private_mode())
            draft.rename(run)
        shutil.rmtree(elsewhere, ignore_errors=True)
    elif draft.exists() and not run.exists():
        draft.rename(run)  # a process was killed between unlink and rename


def _sockets(directory: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "pg" or stat.S_ISSOCK(os.lstat(f"{directory}/{name}").st_mode)]
