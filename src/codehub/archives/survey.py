"""A walk over a volume before (or while) it is packed: how much is there, and is all of it restorable?

tar judges what can be read. What it would happily store but no restore accepts is found here: devices.
"""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from codehub.domain.errors import EffectError, FailureCode

_HEADER_BYTES = 1536  # of a member in the tar stream: its header, its extended header and that one's data
_NAMED_DEVICES = 10


@dataclass(frozen=True)
class Survey:
    """What a volume holds."""

    files: int  # everything but directories and sockets
    bytes: int  # about how long its tar stream is
    devices: tuple[str, ...] = ()

    def require_restorable(self) -> None:
        if self.devices:
            raise EffectError(
                FailureCode.TAR_CREATE_FAILED,
                "The home holds device files, which are never restored: "
                + ", ".join(self.devices[:_NAMED_DEVICES])
                + ". Remove them and try again.",
                action="archive",
                devices=list(self.devices[:_NAMED_DEVICES]),
            )


def survey_volume(volume: Path) -> Survey:
    """Blocking. Skips folders it may not read: tar will fail on them, with their names."""
    files = total = 0
    devices: list[str] = []
    linked: set[tuple[int, int]] = set()
    folders = [os.fspath(volume)]
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                total += _HEADER_BYTES
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    files += 1
                    total += _stored_bytes(entry, linked)
                elif entry.is_symlink():
                    files += 1
                else:
                    files += _count_special(entry, devices)
    return Survey(files=files, bytes=total, devices=tuple(os.path.relpath(each, volume) for each in devices))


def _stored_bytes(entry: "os.DirEntry[str]", linked: set[tuple[int, int]]) -> int:
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return 0
    if status.st_nlink > 1:  # further names of a file are stored as links to the first
        identity = (status.st_dev, status.st_ino)
        if identity in linked:
            return 0
        linked.add(identity)
    return min(status.st_size, status.st_blocks * 512)  # holes are not stored


def _count_special(entry: "os.DirEntry[str]", devices: list[str]) -> int:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return 0
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        devices.append(entry.path)
    return 0 if stat.S_ISSOCK(mode) else 1
