"""Look into a kept archive without restoring it: list a folder, read a file, pack a folder.

``ArchiveContents`` is what every format of archive offers, opened by the format its meta names (``ContentsReader``).
The API reads archives through this interface alone. An archive's bytes are not trusted: whatever looks hostile is
refused as a restore would refuse it, memory and time are bounded, and nothing of it touches a file system by its name.

Paths are relative to the home, with ``/`` between, and "" is the home itself. Links are never followed. Names are
``bytes`` as archived; people see them as UTF-8, with U+FFFD for what is not.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Protocol

from codehub.domain.errors import CodeHubError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SECONDS = 253_402_300_799  # the last second of the year 9999
_NANOSECONDS = 1_000_000_000


class EntryKind(StrEnum):
    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True)
class Entry:
    """A file, folder or link in an archive. ``target``: of a link. A hard link is a file."""

    path: bytes
    kind: EntryKind
    size: int
    mode: int
    mtime_ns: int
    target: bytes | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition(b"/")[2].decode(errors="replace")

    @property
    def modified_at(self) -> datetime:
        """When it was changed; a time that no calendar has is the nearest one."""
        seconds = min(max(self.mtime_ns // _NANOSECONDS, 0), _MAX_SECONDS)
        return _EPOCH + timedelta(seconds=seconds, microseconds=self.mtime_ns % _NANOSECONDS // 1000)


@dataclass(frozen=True)
class Listing:
    """The entries of a folder by name. ``truncated``: there are more."""

    entries: tuple[Entry, ...]
    truncated: bool = False


class EntryNotFound(CodeHubError):
    """There is no such file in this archive."""

    code = "file_not_found"


class WrongKind(CodeHubError):
    """A folder where a file is needed, or the other way round."""

    code = "file_conflict"


class ArchiveUnreadable(CodeHubError):
    """The archive is damaged, hostile, or too large to be looked into."""

    code = "archive_unreadable"


class ArchiveContents(Protocol):
    """One kept archive. All methods also raise ``ArchiveUnreadable``, and ``EffectError`` if the store is away."""

    async def list(self, folder: bytes, *, limit: int) -> Listing:
        """The entries of a folder. Raises ``EntryNotFound`` or ``WrongKind``."""

    async def stat(self, path: bytes) -> Entry:
        """One entry. Raises ``EntryNotFound``."""

    def read(self, path: bytes) -> AsyncGenerator[bytes, None]:
        """The content of a file, exactly as many bytes as ``stat`` says. Raises as ``stat``, or ``WrongKind``."""

    def pack(self, folder: bytes) -> AsyncGenerator[bytes, None]:
        """A tar of a folder with all in it, or of one file. Its names begin with the folder's own."""


def clean_path(path: str) -> bytes:
    """The path as archives name it. Raises ``EntryNotFound`` for one that leads out of the home."""
    parts = [part for part in path.encode("utf-8", "replace").split(b"/") if part not in (b"", b".")]
    if b".." in parts or b"\0" in path.encode("utf-8", "replace"):
        raise EntryNotFound("Paths in an archive begin at the home and have no '..'.")
    return b"/".join(parts)
