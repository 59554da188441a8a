"""Write and read archives in a plain directory, durably across a power cut.

obstore lists and deletes directories well, but its writer never calls fsync and hides unfinished objects
under names no listing shows. Here an object is written under its final name at once. That is safe because
names are never reused and an object without meta is debris by definition; so all debris is listed, and the
archive GC finds it. A meta is written atomically.
"""

import ctypes
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path

PIECE_BYTES = 2 * 1024 * 1024
_WRITE_BACK_BYTES = 8 * 1024 * 1024
_SYNC_FILE_RANGE_WRITE = 2


class DirectoryWriter:
    """Writes one object into the directory. Blocking: call from a worker thread."""

    def __init__(self, root: Path, key: str) -> None:
        self._root = root
        self._path = root / key
        self._descriptor = _create(root, self._path)
        self._written = self._flushed = 0

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
        self._written += len(data)
        if self._written - self._flushed >= _WRITE_BACK_BYTES:
            # The disk writes while the rest is still packed; ``close`` would otherwise wait for all of it.
            _start_writing_back(self._descriptor, self._flushed, self._written - self._flushed)
            self._flushed = self._written

    def close(self) -> None:
        """Make the object durable: the bytes, the name, and the folders above."""
        try:
            os.fsync(self._descriptor)
        finally:
            os.close(self._descriptor)
        sync_folders(self._path.parent, self._root)

    def abort(self) -> None:
        """Remove the unfinished object."""
        os.close(self._descriptor)
        self._path.unlink(missing_ok=True)
        prune_folders(self._path.parent, self._root)


class DirectoryReader:
    """Reads the first ``size`` bytes of an object. Blocking: call from a thread.

    obstore reads files too, but fills every buffer with zeros first and copies it once more afterwards.
    """

    def __init__(self, root: Path, key: str, *, size: int) -> None:
        self._left = size
        self._descriptor = os.open(root / key, os.O_RDONLY | os.O_CLOEXEC)

    def next_piece(self) -> bytes:
        """Return the next piece; empty at the end. Raises OSError if the file is short."""
        piece = os.read(self._descriptor, min(PIECE_BYTES, self._left))
        self._left -= len(piece)
        if not piece and self._left:
            raise OSError(f"the file ends {self._left} bytes too early")
        return piece

    def close(self) -> None:
        os.close(self._descriptor)


def put_durably(root: Path, key: str, data: bytes | bytearray) -> None:
    """Write an object that is in memory, atomically and durably.

    If the process dies before the rename, a ``#1`` file stays behind; such names are hidden from listings and
    removed with their folder (``prune_folders``).
    """
    path = root / key
    unfinished = path.with_name(path.name + "#1")
    unfinished.unlink(missing_ok=True)
    descriptor = _create(root, unfinished)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    except OSError:
        unfinished.unlink(missing_ok=True)  # a full disk: leave it no fuller than it was
        raise
    finally:
        os.close(descriptor)
    unfinished.rename(path)
    sync_folders(path.parent, root)


def remove_unfinished(folder: Path) -> None:
    """Remove the files of writers that were killed."""
    with suppress(FileNotFoundError):
        for name in os.listdir(folder):
            if "#" in name:
                (folder / name).unlink(missing_ok=True)


def sync_folders(folder: Path, root: Path) -> None:
    """Make the names in ``folder`` and in every folder up to ``root`` durable."""
    while True:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if folder == root or root not in folder.parents:
            return
        folder = folder.parent


def prune_folders(folder: Path, root: Path) -> None:
    """Remove ``folder`` and its parents below ``root`` while they are empty.

    Unfinished files (``#``) do not count and are removed.
    """
    while folder != root and root in folder.parents:
        try:
            names = os.listdir(folder)
            if not all("#" in name for name in names):
                return
            for name in names:
                (folder / name).unlink()
            folder.rmdir()
        except OSError:
            return  # another process is writing there, or has removed it: both are fine
        folder = folder.parent


def _start_writing_back(descriptor: int, offset: int, length: int) -> None:
    """Ask the kernel to start writing to disk, without waiting.

    Only a hint: errors are reported by the fsync at the end.
    """
    libc = _libc()
    if libc is not None:
        start, count = ctypes.c_int64(offset), ctypes.c_int64(length)
        libc.sync_file_range(descriptor, start, count, _SYNC_FILE_RANGE_WRITE)


@cache
def _libc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "sync_file_range") else None


def _create(root: Path, path: Path) -> int:
    """Open a new file below ``root``.

    The root itself is never created here: a missing one may be an unmounted disk.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    for tries_left in (2, 1, 0):
        _make_folders(root, path.parent)
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            if not tries_left:  # a concurrent deletion pruned the folder between the two calls: retry
                raise
    raise AssertionError("unreachable")


def _make_folders(root: Path, folder: Path) -> None:
    missing = []
    while folder != root and not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)
