"""Put a restored home in the place of the volume.

The new home is unpacked in a staging place, verified, and put in place as the last step. ``sweep`` first
removes what earlier tries left behind: one storage job runs per workspace, so all of it is unused.

``BesideVolume``: the volume is a directory. One atomic exchange; a crash before it leaves the old home, after
it the new one. ``WithinVolume``: the volume is a mount point that cannot be renamed (Docker), so the entries
are moved one by one. A crash in the middle leaves a mixture, which is why a restored volume is trusted only
once the database holds its restore marker; the next try starts over.

No link is followed while clearing or placing (``kit/trees``): a home may hold links to anything.
"""

import ctypes
import errno
import os
import shutil
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from codehub.kit.trees import remove_tree, usable_folder

_PREFIX = ".codehub-restore-"
_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class StagingPlace(Protocol):
    """Where a home is unpacked before it replaces the volume. All methods block."""

    @property
    def file_system(self) -> Path:
        """An existing directory on the file system that receives the home."""

    def sweep(self) -> None:
        """Remove leftovers of earlier tries. Idempotent."""

    def make(self) -> Path:
        """Create a fresh, empty directory to unpack into."""

    def make_durable(self, home: Path) -> None:
        """Flush ``home`` to disk, before ``publish``.

        What a power cut could take away must not become the volume.
        """

    def publish(self, home: Path) -> None:
        """Make ``home`` the volume, durably, and remove what was there before."""


class BesideVolume:
    """Replaces a volume that is a plain directory, by one atomic exchange."""

    def __init__(self, volume: Path, *, staging: Path) -> None:
        self._volume = volume
        self._staging = staging

    @property
    def file_system(self) -> Path:
        return self._staging

    def sweep(self) -> None:
        self._staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_leftovers(self._staging)

    def make(self) -> Path:
        return _make_home(self._staging)

    def make_durable(self, home: Path) -> None:
        _sync_file_system(home)

    def publish(self, home: Path) -> None:
        with usable_folder(home):  # to be moved it must be writable
            self._put_in_place(home)
        _sync_folder(self._volume.parent)
        _sync_folder(self._staging)
        _remove_leftovers(self._staging)

    def _put_in_place(self, home: Path) -> None:
        try:
            os.rename(home, self._volume)  # nothing there, or an empty directory
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        with usable_folder(self._volume):
            if not _exchange(home, self._volume):
                # No exchange on this file system. A crash between the two renames leaves no volume: the operation is
                # then still in flight, its archive exists, and the next try restores it.
                os.rename(self._volume, _fresh_name(self._staging))
                os.rename(home, self._volume)


class WithinVolume:
    """Replaces the entries of a volume that is a mount point, one by one."""

    def __init__(self, volume: Path) -> None:
        self._volume = volume

    @property
    def file_system(self) -> Path:
        return self._volume

    def sweep(self) -> None:
        with usable_folder(self._volume):
            _remove_leftovers(self._volume)

    def make(self) -> Path:
        with usable_folder(self._volume):
            return _make_home(self._volume)

    def make_durable(self, home: Path) -> None:
        _sync_file_system(home)

    def publish(self, home: Path) -> None:
        status = home.lstat()
        with usable_folder(self._volume), usable_folder(home):
            for name in os.listdir(self._volume):
                if name != home.name:
                    remove_tree(self._volume / name)
            for name in os.listdir(home):
                _move(home / name, self._volume / name)
        if os.geteuid() == 0:
            os.chown(self._volume, status.st_uid, status.st_gid)
        shutil.copystat(home, self._volume)  # mode and extended attributes
        with usable_folder(self._volume):
            home.rmdir()
        os.utime(self._volume, ns=(status.st_atime_ns, status.st_mtime_ns))  # last: moving changed it
        _sync_file_system(self._volume)


def _move(source: Path, target: Path) -> None:
    """Rename, making a read-only folder writable for it.

    Moving a folder rewrites its ``..``: an ordinary user needs write permission on it for that.
    """
    try:
        os.rename(source, target)
    except PermissionError:
        with usable_folder(source):
            os.rename(source, target)


def _remove_leftovers(folder: Path) -> None:
    for name in os.listdir(folder):
        if name.startswith(_PREFIX):
            remove_tree(folder / name)


def _fresh_name(folder: Path) -> Path:
    return folder / f"{_PREFIX}{uuid4().hex}"


def _make_home(folder: Path) -> Path:
    home = _fresh_name(folder)
    home.mkdir(mode=0o700)
    return home


def _exchange(one: Path, other: Path) -> bool:
    """Swap two names atomically. False where the kernel or the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), os.fspath(other))


def _sync_file_system(path: Path) -> None:
    """Flush everything just unpacked to disk: one call instead of one fsync per file."""
    libc = ctypes.CDLL(None, use_errno=True)
    with usable_folder(path) as descriptor:
        if not hasattr(libc, "syncfs"):
            os.sync()
        elif libc.syncfs(descriptor) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), os.fspath(path))


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
