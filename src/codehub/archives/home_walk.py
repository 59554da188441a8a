"""Walk a home in the order of its tar stream and decide what is read.

Folder by folder, names sorted: all entries of a folder, then its subfolders. The manifest of the generation before is
in the same order, so both are gone through once, side by side, in constant memory. An entry gets into the stream in one
of four ways: tar reads it; its member is taken over from the generation before without reading it; tar reads it and it
is compared with that member (a full read); or it is a further name of a file, whose member is made here.
"""

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from codehub.archives.file_index import FileIndex
from codehub.archives.listing import Entry, Folder
from codehub.archives.survey import LONGEST_PATH, Survey, not_archivable, shown
from codehub.archives.tar_members import hardlink_member

_KINDS = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l", stat.S_IFIFO: "p"}


class Planned(NamedTuple):
    """One entry and how it gets into the stream."""

    entry: Entry  # its member_bytes is known once it is in the stream
    begin: int = -1  # the same entry in the generation before: where it is in that stream
    take_over: bool = False  # without reading it
    made: bytes = b""  # the member itself, of a further name of a file

    @property
    def is_read(self) -> bool:
        return not (self.take_over or self.made)


class Batch(NamedTuple):
    """The entries of one folder, in order."""

    folder: bytes
    entries: list[Planned]


class Known(NamedTuple):
    """An entry of the generation before: its number, and where it begins in the stream."""

    number: int
    entry: Entry
    begin: int


class Previous:
    """The generation before, gone through beside the walk."""

    def __init__(
        self,
        next_folder: Callable[[], Folder | None],
        *,
        index: FileIndex | None,
        is_proven: Callable[[int, int], bool],
    ) -> None:
        self.index = index  # None: everything is read
        self.is_proven = is_proven
        self._next_folder = next_folder
        self._current = next_folder()
        self._number = 0

    def entries_of(self, folder: bytes) -> dict[bytes, Known]:
        """Return what the generation before has in ``folder``. Call it in the order of the walk."""
        parts = folder.split(b"/")
        found: dict[bytes, Known] = {}
        while self._current is not None and (there := self._current.path.split(b"/")) <= parts:
            if there == parts:
                begin = self._current.start
                for number, entry in enumerate(self._current.entries, self._number):
                    found[entry.name] = Known(number, entry, begin)
                    begin += entry.member_bytes
            self._number += len(self._current.entries)
            self._current = self._next_folder()
        return found


class HomeWalk:
    """Yields the batches of a home; afterwards knows what was found."""

    def __init__(self, volume: Path, previous: Previous | None) -> None:
        self.files = 0
        self.sockets = 0
        self._volume = volume
        self._previous = previous
        self._devices: list[str] = []
        self._too_deep: list[str] = []
        self._unreadable: list[str] = []
        self._first_names: dict[tuple[int, int], bytes] = {}

    def require_restorable(self) -> None:
        """Raise ``HOME_NOT_ARCHIVABLE`` for what cannot be read or would never be restored."""
        if self._unreadable:
            raise not_archivable("These files of the home cannot be read", self._unreadable)
        Survey(self.files, tuple(self._devices), tuple(self._too_deep)).require_restorable()

    def batches(self) -> Iterator[Batch]:
        try:
            root = os.open(self._volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise not_archivable("These files of the home cannot be read", ["."]) from error
        try:
            yield Batch(b"", [Planned(_entry(b".", "d", os.fstat(root)))])
            folders = [b"."]
            while folders:
                folder = folders.pop()
                batch = Batch(folder, [])
                known = self._previous.entries_of(folder) if self._previous is not None else {}
                for name, status in self._statuses(root, folder):
                    planned = self._plan(folder, name, status, known.get(name))
                    if planned is not None:
                        batch.entries.append(planned)
                yield batch
                below = [folder + b"/" + each.entry.name for each in batch.entries if each.entry.kind == "d"]
                folders.extend(reversed(below))
        finally:
            os.close(root)

    def _statuses(self, root: int, folder: bytes) -> list[tuple[bytes, os.stat_result]]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(folder, flags, dir_fd=root)
        except OSError:
            self._unreadable.append(shown(folder.removeprefix(b"./")))
            return []
        try:
            with os.scandir(descriptor) as entries:
                found = [(os.fsencode(entry.name), entry.stat(follow_symlinks=False)) for entry in entries]
        except OSError:
            self._unreadable.append(shown(folder.removeprefix(b"./")))
            return []
        finally:
            os.close(descriptor)
        found.sort(key=lambda each: each[0])
        return found

    def _plan(
        self, folder: bytes, name: bytes, status: os.stat_result, known: Known | None
    ) -> Planned | None:
        kind = _KINDS.get(stat.S_IFMT(status.st_mode))
        path = folder + b"/" + name
        if len(path) > LONGEST_PATH:
            self._too_deep.append(shown(path.removeprefix(b"./")))
            return None
        if kind is None:
            if stat.S_ISSOCK(status.st_mode):
                self.sockets += 1
            else:
                self._devices.append(shown(path.removeprefix(b"./")))
            return None
        if kind != "d":
            self.files += 1
            if status.st_nlink > 1:
                first = self._first_names.setdefault((status.st_dev, status.st_ino), path)
                if first != path:
                    made = hardlink_member(path, first, status)
                    return Planned(_entry(name, "h", status, target=first), made=made)
        entry = _entry(name, kind, status)
        if known is None or self._previous is None or not _alike(known.entry, entry):
            return Planned(entry)
        if not self._previous.is_proven(known.begin, known.begin + known.entry.member_bytes):
            return Planned(entry)
        index = self._previous.index
        unchanged = index is not None and index.has_unchanged(known.number, status)
        return Planned(known.entry, known.begin, take_over=unchanged)


def _entry(name: bytes, kind: str, status: os.stat_result, *, target: bytes = b"") -> Entry:
    size = status.st_size if kind == "f" else 0
    mtime = status.st_mtime_ns // 1_000_000_000
    return Entry(name, kind, stat.S_IMODE(status.st_mode), size, mtime, 0, target)


def _alike(known: Entry, found: Entry) -> bool:
    return (known.kind, known.mode, known.size, known.mtime) == (
        found.kind,
        found.mode,
        found.size,
        found.mtime,
    )
