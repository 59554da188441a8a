"""The index of a tar: which file is where in the stream, in one SQLite file.

Written once by ``indexer``, in a process of its own, and then only read. It holds nothing that is not in the archive,
and may be deleted at any time.
"""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from codehub.archives.contents import Entry, EntryKind
from codehub.archives.members import HostileArchive, Member

MAX_ENTRIES = 2_000_000
MAX_PATH_BYTES = 4096
_BATCH = 1000
_TABLE = """
CREATE TABLE entries (
    parent BLOB NOT NULL, name BLOB NOT NULL, kind TEXT NOT NULL, size INTEGER NOT NULL, mode INTEGER NOT NULL,
    mtime_ns INTEGER NOT NULL, target BLOB, at INTEGER NOT NULL, sparse INTEGER NOT NULL,
    PRIMARY KEY (parent, name)
) WITHOUT ROWID
"""
_COLUMNS = "parent, name, kind, size, mode, mtime_ns, target, at, sparse"
_KINDS = {b"2": EntryKind.SYMLINK, b"5": EntryKind.DIRECTORY, b"6": EntryKind.OTHER}
_HARDLINK = b"1"
_MAX_NUMBER = 2**63 - 1


class Sparse(IntEnum):
    """How the holes of a file are written down."""

    NONE = 0
    MAP_BEFORE_DATA = 1  # version 1.0, which CodeHub's archives have
    UNKNOWN = 2


@dataclass(frozen=True)
class Located:
    """An entry, and where its data is in the tar's stream. Hard links to one file are at one place."""

    entry: Entry
    at: int
    sparse: Sparse


class IndexWriter:
    """Collects the members of a tar. Blocking. Raises ``HostileArchive`` for more than is ever indexed."""

    def __init__(self, file: Path) -> None:
        self._database = sqlite3.connect(file, isolation_level=None)
        # A crash leaves a file without its name: nobody reads it.
        for setting in ("journal_mode=OFF", "synchronous=OFF", "temp_store=FILE", "cache_size=-16384"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute(_TABLE)
        self._database.execute("BEGIN")
        self._rows: list[tuple[object, ...]] = []
        self._count = 0
        self._known_parent = b""

    def add(self, member: Member) -> None:
        path = b"/".join(part for part in member.name.split(b"/") if part not in (b"", b"."))
        if not path:
            return  # the home itself
        self._count += 1
        if self._count > MAX_ENTRIES or len(path) > MAX_PATH_BYTES:
            raise HostileArchive("more or longer names than can be looked into")
        parent, _, name = path.rpartition(b"/")
        self._require_parent(parent, member.at)
        if member.kind == _HARDLINK:
            self._add_hardlink(parent, name, member)
            return
        kind = _KINDS.get(member.kind, EntryKind.FILE)
        sparse, size = _size_of(member)
        target = member.link if kind is EntryKind.SYMLINK else None
        row = (parent, name, kind.value, size, member.mode, _mtime(member), target, member.at, sparse.value)
        self._rows.append(row)
        if len(self._rows) >= _BATCH:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._database.execute("COMMIT")
        self._database.close()

    def _add_hardlink(self, parent: bytes, name: bytes, member: Member) -> None:
        self._flush()
        target = b"/".join(part for part in member.link.split(b"/") if part not in (b"", b"."))
        above, _, last = target.rpartition(b"/")
        self._database.execute(
            "INSERT OR REPLACE INTO entries SELECT ?, ?, kind, size, mode, mtime_ns, target, at, sparse FROM entries "
            "WHERE parent = ? AND name = ?",
            (parent, name, above, last),
        )

    def _require_parent(self, parent: bytes, at: int) -> None:
        """Make the folders above, where the tar has none of its own for them."""
        if parent == self._known_parent:
            return
        self._known_parent = parent
        self._flush()
        while parent:
            above, _, name = parent.rpartition(b"/")
            row = (above, name, EntryKind.DIRECTORY.value, 0, 0o755, 0, None, at, 0)
            if not self._database.execute(_INSERT_NEW, row).rowcount:
                return
            self._count += 1
            parent = above

    def _flush(self) -> None:
        self._database.executemany(_INSERT, self._rows)
        self._rows.clear()


_VALUES = "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_INSERT = (
    f"INSERT OR REPLACE INTO entries ({_COLUMNS}) {_VALUES}"  # as in a restore, the last of a name counts
)
_INSERT_NEW = f"INSERT OR IGNORE INTO entries ({_COLUMNS}) {_VALUES}"


class TarIndex:
    """Reads an index. Blocking."""

    def __init__(self, file: Path) -> None:
        uri = f"{file.absolute().as_uri()}?mode=ro&immutable=1"
        self._database = sqlite3.connect(uri, uri=True, check_same_thread=False)

    def close(self) -> None:
        self._database.close()

    def find(self, path: bytes) -> Located | None:
        parent, _, name = path.rpartition(b"/")
        found = self._database.execute(
            f"SELECT {_COLUMNS} FROM entries WHERE parent = ? AND name = ?", (parent, name)
        )
        row = found.fetchone()
        return None if row is None else _located(row)

    def children(self, folder: bytes, *, limit: int) -> list[Entry]:
        found = self._database.execute(
            f"SELECT {_COLUMNS} FROM entries WHERE parent = ? ORDER BY name LIMIT ?", (folder, limit)
        )
        return [_located(row).entry for row in found]

    def below(self, folder: bytes) -> Iterator[Located]:
        """Everything in a folder, in the order of the stream."""
        where = "1"
        values: tuple[bytes, ...] = ()
        if folder:
            where = "parent = ? OR (parent > ? AND parent < ?)"
            values = (folder, folder + b"/", folder + b"0")  # 0 follows /
        query = f"SELECT {_COLUMNS} FROM entries WHERE {where} ORDER BY at, parent, name"
        for row in self._database.execute(query, values):
            yield _located(row)


def _located(row: tuple[bytes, bytes, str, int, int, int, bytes | None, int, int]) -> Located:
    parent, name, kind, size, mode, mtime_ns, target, at, sparse = row
    path = parent + b"/" + name if parent else name
    entry = Entry(path, EntryKind(kind), size=size, mode=mode, mtime_ns=mtime_ns, target=target)
    return Located(entry, at, Sparse(sparse))


def _size_of(member: Member) -> tuple[Sparse, int]:
    pax = member.pax
    if not any(keyword.startswith(b"GNU.sparse.") for keyword in pax):
        return Sparse.NONE, member.size
    real = pax.get(b"GNU.sparse.realsize") or pax.get(b"GNU.sparse.size") or b"0"
    if not real.isdigit() or int(real) > _MAX_NUMBER:
        raise HostileArchive("a malformed size of a sparse file")
    known = (pax.get(b"GNU.sparse.major"), pax.get(b"GNU.sparse.minor")) == (b"1", b"0")
    return Sparse.MAP_BEFORE_DATA if known else Sparse.UNKNOWN, int(real)


def _mtime(member: Member) -> int:
    """Nanoseconds since 1970; what makes no sense is only shown, and is 0."""
    text = member.pax.get(b"mtime")
    if text is None:
        return min(member.mtime, 2**33) * 1_000_000_000
    seconds, _, fraction = text.partition(b".")
    try:
        whole = int(seconds)
    except ValueError:
        return 0
    nanoseconds = int((fraction + b"000000000")[:9]) if fraction.isdigit() else 0
    return max(-(2**33), min(whole, 2**33)) * 1_000_000_000 + nanoseconds
