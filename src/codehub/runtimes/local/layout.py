"""File layout of the local runtime, and the marker of the right disk.

    {data dir}/volumes/.installation          marker: the installation's id
    {data dir}/volumes/ws-{id}-home/          the home directories
    {data dir}/volumes/.staging/ws-{id}/      a restore in progress (same file system: it is renamed in)
    {data dir}/volumes/.trash/                deleted homes, not yet removed
    {data dir}/run/.installation
    {data dir}/run/processes/{id}             the running process; written by the process itself
    {data dir}/run/jobs/{id}                  the running storage job; likewise
    {data dir}/run/ports/{port}               symlink to the workspace that owns the port
    {data dir}/run/locks/{id}                 one actor at a time; the highest token and the port are in it
    {data dir}/run/locks/{id}.job             held by a storage job; made with the first one
    {data dir}/run/output/{id}.log            output of the workspace; {id}.job.log: errors of its job
    {data dir}/run/ide/{port}/s               where the IDE listens, if it can on a socket

A socket's path has 107 bytes at most. Below a data directory with a long path, ``run/ide`` is a directory in
``/tmp`` named after it instead. The directory of a workspace's socket is named by the port reserved for it: short
and unique.

The directories are flat: an observation takes three directory scans however many workspaces there are, and a
start creates few files. The marker exists because an unmounted disk looks exactly like "every home is gone":
without the marker of this installation in ``volumes`` nothing is reported and nothing is created.
"""

import hashlib
import os
import re
import secrets
from functools import lru_cache
from pathlib import Path
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode
from codehub.kit.unix_sockets import LONGEST_PATH
from codehub.runtimes.local.processes import read_line

MARKER = ".installation"
_VOLUME_NAME = re.compile(r"ws-([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})-home")


class Layout:
    """File names below one data directory. Creates and checks the markers only."""

    def __init__(self, data_dir: Path, installation_id: str) -> None:
        self.data_dir = data_dir
        self.installation_id = installation_id
        self.volumes = data_dir / "volumes"
        self.staging = self.volumes / ".staging"
        self.trash = self.volumes / ".trash"
        self.run = data_dir / "run"
        self.processes = self.run / "processes"
        self.jobs = self.run / "jobs"
        self.ports = self.run / "ports"
        self.locks = self.run / "locks"
        self.outputs = self.run / "output"
        self.sockets = _socket_directory(data_dir)

    def volume(self, workspace_id: UUID) -> Path:
        return self.volumes / f"ws-{workspace_id}-home"

    def staging_of(self, workspace_id: UUID) -> Path:
        return self.staging / f"ws-{workspace_id}"

    def lock(self, workspace_id: UUID) -> Path:
        return self.locks / str(workspace_id)

    def job_lock(self, workspace_id: UUID) -> Path:
        return self.locks / f"{workspace_id}.job"

    def process(self, workspace_id: UUID) -> Path:
        return self.processes / str(workspace_id)

    def job(self, workspace_id: UUID) -> Path:
        return self.jobs / str(workspace_id)

    def output(self, workspace_id: UUID) -> Path:
        return self.outputs / f"{workspace_id}.log"

    def job_output(self, workspace_id: UUID) -> Path:
        return self.outputs / f"{workspace_id}.job.log"

    def socket(self, port: int) -> Path:
        """Socket of the IDE of the workspace that owns this port, in its own directory."""
        return self.sockets / str(port) / "s"

    def prepare(self, *, create: bool) -> None:
        """Create the directories on first use; check existing ones.

        ``run`` gets its marker last. So a marked ``run`` beside unmarked volumes is a disk that is not mounted,
        and an unmarked one is a first start that crashed: it is made again. With ``create`` False nothing is
        created: the caller knows of homes that must be here.
        """
        try:
            if create and not (self.run / MARKER).exists():
                self._create()
            self.check()
            below_run = (self.processes, self.jobs, self.ports, self.locks, self.outputs)
            for directory in (self.staging, self.trash, *below_run):
                directory.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise unreadable(self.data_dir, error) from error

    def check_writable(self) -> None:
        """Raise unless the volumes are here and writable (a failing disk is read-only)."""
        self.check()
        try:
            for directory in (self.volumes, self.run):
                os.utime(directory)
        except OSError as error:
            raise unreadable(self.data_dir, error) from error

    def check(self) -> None:
        """Raise unless the volumes directory has this installation's marker."""
        for directory in (self.volumes, self.run):
            try:
                found = read_line(f"{directory}/{MARKER}").decode().strip()
            except FileNotFoundError as error:
                raise EffectError(
                    FailureCode.LOCAL_RUNTIME_ERROR,
                    f"{directory} does not carry CodeHub's marker: is its disk mounted?",
                    path=str(directory),
                ) from error
            except (OSError, UnicodeDecodeError) as error:
                raise unreadable(directory, error) from error
            if found != self.installation_id:
                raise EffectError(
                    FailureCode.LOCAL_RUNTIME_ERROR,
                    f"{directory} belongs to another CodeHub installation",
                    path=str(directory),
                    found=found,
                    expected=self.installation_id,
                )

    def _create(self) -> None:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self.volumes.mkdir(mode=0o700, exist_ok=True)
        homes = [name for name in os.listdir(self.volumes) if workspace_of(name) is not None]
        if homes and not (self.volumes / MARKER).exists():
            raise EffectError(
                FailureCode.LOCAL_RUNTIME_ERROR,
                f"{self.volumes} holds homes of an unknown installation: it is not taken over",
                path=str(self.volumes),
            )
        _mark(self.volumes, self.installation_id)
        self.run.mkdir(mode=0o700, exist_ok=True)
        _mark(self.run, self.installation_id)


def _socket_directory(data_dir: Path) -> Path:
    """Always the same for one data directory: workspaces outlive servers, and the next one must find them."""
    directory = data_dir / "run" / "ide"
    if len(os.fsencode(directory / "65535" / "s")) <= LONGEST_PATH:
        return directory
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path("/tmp") / f"codehub-ide-{os.geteuid()}-{digest}"


@lru_cache(maxsize=2**16)  # the same names at every observation
def workspace_of(volume_name: str) -> UUID | None:
    """The workspace of a volume's directory name; None: another name."""
    found = _VOLUME_NAME.fullmatch(volume_name)
    return UUID(found[1]) if found else None


def find_uuid(name: str) -> UUID | None:
    """Parse a file name that is exactly a UUID as this module writes it, or None."""
    try:
        value = UUID(name)
    except ValueError:
        return None
    return value if str(value) == name else None


def unreadable(path: Path, error: Exception) -> EffectError:
    detail = error.strerror if isinstance(error, OSError) else None
    return EffectError(
        FailureCode.LOCAL_RUNTIME_ERROR,
        f"cannot use {path}: {detail or error}",
        path=str(path),
    )


def write_durably(path: Path, text: str) -> None:
    """Replace a small file. Atomic and durable: a power cut leaves the old or the new."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, text.encode())
        os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(draft, path)


def _mark(directory: Path, installation_id: str) -> None:
    """Create the marker. Two servers may do this at once: the first one stays, and ``check`` compares it."""
    draft = directory / f".marker.{secrets.token_hex(4)}"
    write_durably(draft, installation_id + "\n")
    try:
        os.link(draft, directory / MARKER)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
