"""The file index: how a restored volume's files looked when the restore was done.

One object per workspace, ``packs/{workspace_id}/index``: inode, ctime and mtime of every entry of a manifest, in its
order, written after each restore. The next archive takes a file over without reading it if inode, both times and size
are still these. Any change of a file sets its ctime, which no program can choose. The index is a cache: without it, or
with one of another restore, files are read. It holds nothing that could make an archive wrong: whoever forges one
would have to know the ctime, to the nanosecond, of a change that is yet to come.
"""

import hashlib
import os
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path

import zstandard

from codehub.archives.columns import from_columns, to_columns
from codehub.archives.listing import Folder
from codehub.archives.manifest import MAX_TAIL_BYTES

_HEADER = struct.Struct("<8s32sQ32s")  # magic; SHA-256 of the manifest, count of entries, SHA-256 of the rest
_MAGIC = b"CHINDEX2"
MISSING = 0  # no inode has this number


class FileIndex:
    """Inode, ctime and mtime (nanoseconds) of every entry of one manifest, in its order."""

    def __init__(self) -> None:
        self.inodes: array[int] = array("Q")
        self.ctimes: array[int] = array("q")
        self.mtimes: array[int] = array("q")

    def record(self, root: int, folder: Folder) -> None:
        """Append the entries of a folder of the volume open as ``root``. Blocking."""
        for entry in folder.entries:
            path = folder.path + b"/" + entry.name if folder.path else entry.name
            try:
                status = os.stat(path, dir_fd=root, follow_symlinks=False)
            except OSError:  # too deep to be reached by its path: read again next time
                self._append(MISSING, 0, 0)
            else:
                self._append(status.st_ino, status.st_ctime_ns, status.st_mtime_ns)

    def _append(self, inode: int, ctime: int, mtime: int) -> None:
        self.inodes.append(inode)
        self.ctimes.append(ctime)
        self.mtimes.append(mtime)

    def has_unchanged(self, number: int, status: os.stat_result) -> bool:
        """Whether entry ``number`` still is the file that was restored. Size and kind are compared elsewhere."""
        return (
            self.inodes[number] == status.st_ino
            and self.ctimes[number] == status.st_ctime_ns
            and self.mtimes[number] == status.st_mtime_ns
        )

    def encode(self, manifest_sha256: str) -> bytes:
        raw = to_columns((self.inodes, self.ctimes, self.mtimes))
        rest = zstandard.ZstdCompressor(level=3).compress(raw)
        digest = hashlib.sha256(rest).digest()
        return _HEADER.pack(_MAGIC, bytes.fromhex(manifest_sha256), len(self.inodes), digest) + rest

    @classmethod
    def parse(cls, raw: bytes, *, manifest_sha256: str) -> "FileIndex | None":
        """Parse an index; None if it is damaged, or of another manifest."""
        if len(raw) < _HEADER.size:
            return None
        magic, of, count, digest = _HEADER.unpack_from(raw)
        rest = raw[_HEADER.size :]
        if magic != _MAGIC or of.hex() != manifest_sha256 or hashlib.sha256(rest).digest() != digest:
            return None
        if count * 24 > MAX_TAIL_BYTES:
            return None
        try:
            plain = zstandard.ZstdDecompressor().decompress(rest, max_output_size=count * 24)
        except zstandard.ZstdError:
            return None
        index = cls()
        columns: Sequence[array[int]] = (index.inodes, index.ctimes, index.mtimes)
        return index if from_columns(columns, plain, count) else None


def open_root(volume: Path) -> int:
    return os.open(volume, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
