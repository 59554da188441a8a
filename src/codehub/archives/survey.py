"""Walk a volume while it is packed: check that it is restorable, and size it.

tar fails on what it cannot read. What it would store but no restore accepts is found here: devices, and names
so deep that no program can open them by their path, tar at the restore included.

The walks share the machine with tar and zstd, so the one that every archive needs reads names and kinds only,
0.1 s for 100 000 files; the sizes of them all cost six times that. They are summed only where needed: for a
store that plans its parts, and for a progress bar.
"""

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from codehub.domain.errors import EffectError, FailureCode

_HEADER_BYTES = 1536  # of a member in the tar stream: its header, its extended header and that one's data
_LONGEST_NAME = 256
LONGEST_PATH = 4094
"""Longest path a program can open: PATH_MAX without the NUL, and tar appends a slash to a folder's name."""

_SHOWN_LENGTH = 300
MOST_NAMED = 10


@dataclass(frozen=True)
class Survey:
    """The content of a volume."""

    files: int  # everything but directories and sockets
    devices: tuple[str, ...] = ()
    too_deep: tuple[str, ...] = ()

    def require_restorable(self) -> None:
        """Raise ``HOME_NOT_ARCHIVABLE`` for devices and paths that are too long."""
        if self.devices:
            raise not_archivable("The home holds device files, which are never restored", self.devices)
        if self.too_deep:
            raise not_archivable("The home holds folders too deep to be restored", self.too_deep)


def not_archivable(what: str, names: Sequence[str]) -> EffectError:
    """Build the error for the home's owner: what cannot be archived, and where."""
    named = list(names[:MOST_NAMED])
    more = f" and {len(names) - len(named)} more" if len(names) > len(named) else ""
    return EffectError(
        FailureCode.HOME_NOT_ARCHIVABLE,
        f"{what}: {', '.join(named)}{more}.",
        action="archive",
        files=named,
    )


def shown(name: bytes) -> str:
    """Return a file's name for people and the database, which accepts only UTF-8."""
    text = name.decode(errors="backslashreplace").replace("\n", "\\n")
    return (
        text if len(text) <= _SHOWN_LENGTH else f"{text[: _SHOWN_LENGTH // 2]}…{text[-_SHOWN_LENGTH // 2 :]}"
    )


def survey_volume(volume: Path) -> Survey:
    """Count files and find what no restore accepts. Blocking.

    Skips folders it may not read: tar fails on them, with their names.
    """
    files = 0
    devices: list[str] = []
    too_deep: list[str] = []
    for folder, entry, is_plain in _walk(volume):
        if len(folder) > LONGEST_PATH - _LONGEST_NAME and _length(folder, entry.name) > LONGEST_PATH:
            too_deep.append(_show(folder, entry.name))
        elif is_plain:
            files += 1
        elif not _is_folder(entry):
            files += _count_special(folder, entry, devices)
    return Survey(files=files, devices=tuple(devices), too_deep=tuple(too_deep))


def estimate_bytes(volume: Path, *, stop: threading.Event) -> int:
    """Estimate the length of the tar stream of ``volume``. Blocking.

    ``stop`` ends it at the next folder.
    """
    total = 0
    linked: set[tuple[int, int]] = set()
    for _, entry, is_plain in _walk(volume, stop=stop):
        total += _HEADER_BYTES
        if is_plain:
            total += _stored_bytes(entry, linked)
    return total


def _walk(
    volume: Path, *, stop: threading.Event | None = None
) -> "Iterator[tuple[bytes, os.DirEntry[str], bool]]":
    """Yield every entry below: its folder, itself, and whether it is a plain file.

    Plain files are tested first because most are. Folders are opened below the volume's own descriptor, so
    only their path inside the home must be short enough, and never through a link. An entry must be inspected
    before the next one is requested.
    """
    try:
        root = os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return  # not even the home itself can be opened: tar reports it
    try:
        folders = [b"."]
        while folders and not (stop and stop.is_set()):
            folder = folders.pop()
            for entry in _entries(folder, root):
                is_plain = _is_plain(entry)
                if not is_plain and _is_folder(entry) and _length(folder, entry.name) <= LONGEST_PATH:
                    folders.append(folder + b"/" + os.fsencode(entry.name))
                yield folder, entry, is_plain
    finally:
        os.close(root)


def _entries(folder: bytes, root: int) -> "Iterator[os.DirEntry[str]]":
    """Yield the entries of a folder; none if it cannot be read."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
    except OSError:
        return
    try:
        with os.scandir(descriptor) as entries:
            yield from entries
    finally:
        os.close(descriptor)


def _is_plain(entry: "os.DirEntry[str]") -> bool:
    """Return whether it is a plain file.

    Mostly known from the listing; some file systems need a stat, which may fail.
    """
    try:
        return entry.is_file(follow_symlinks=False)
    except OSError:
        return False


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _length(folder: bytes, name: str) -> int:
    return len(folder) + 1 + len(os.fsencode(name))


def _show(folder: bytes, name: str) -> str:
    return shown((folder + b"/" + os.fsencode(name)).removeprefix(b"./"))


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


def _count_special(folder: bytes, entry: "os.DirEntry[str]", devices: list[str]) -> int:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError:
        return 0
    if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
        devices.append(_show(folder, entry.name))
    return 0 if stat.S_ISSOCK(mode) else 1
