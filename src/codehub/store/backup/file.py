"""Write and read a backup file: a manifest, and the rows of each table.

A tar file packed with gzip: ``manifest.json`` first, then ``tables/NAME.copy`` in PostgreSQL's text format, parents
before children. The file appears under its name when it is complete; a crash leaves a ``.partial`` beside it. Nothing
that is read from one is used before its length and checksum were compared with the manifest.
"""

import hashlib
import json
import os
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from pydantic import TypeAdapter

from codehub.domain.errors import CodeHubError

FORMAT = "codehub-backup-1"
_MANIFEST = "manifest.json"
_MAX_MANIFEST_BYTES = 1024 * 1024
_PIECE = 1024 * 1024
_UNREADABLE = (tarfile.TarError, EOFError, OSError, ValueError, KeyError, TypeError, zlib.error)


class BackupUnusable(CodeHubError):
    """The file is no backup, is damaged, or was made by a newer CodeHub."""

    code = "backup_unusable"


@dataclass(frozen=True)
class TableCopy:
    """The rows of one table."""

    name: str
    columns: Sequence[str]
    rows: int
    size: int
    sha256: str

    @property
    def member(self) -> str:
        return f"tables/{self.name}.copy"


@dataclass(frozen=True)
class Manifest:
    """What a backup holds. ``tables``: parents before children."""

    version: str
    revision: str
    installation_id: str
    made_at: str
    tables: Sequence[TableCopy] = field(default_factory=tuple)
    format: str = FORMAT

    def rows_of(self, table: str) -> int:
        return next((each.rows for each in self.tables if each.name == table), 0)

    def as_json(self) -> bytes:
        return json.dumps(asdict(self), indent=2).encode()


_MANIFESTS = TypeAdapter(Manifest)


def write(path: Path, manifest: Manifest, copies: Path) -> None:
    """Pack ``copies`` (a directory with the members) into ``path``, readable by its owner alone."""
    partial = path.with_name(f"{path.name}.partial")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
        with tarfile.open(fileobj=output, mode="w:gz") as packed:
            manifest_file = copies / _MANIFEST
            manifest_file.write_bytes(manifest.as_json())
            packed.add(manifest_file, arcname=_MANIFEST)
            for table in manifest.tables:
                packed.add(copies / table.member, arcname=table.member)
        output.flush()
        os.fsync(output.fileno())
    partial.rename(path)
    _sync(path.parent)


def unpack(path: Path, directory: Path) -> Manifest:
    """Unpack a backup into ``directory`` and check every byte of it. Raises ``BackupUnusable``."""
    with _readable(path), tarfile.open(path, mode="r:gz") as packed:
        manifest = _read_manifest(packed)
        (directory / "tables").mkdir()
        for table in manifest.tables:
            _unpack_table(packed, table, directory)
    return manifest


def _read_manifest(packed: tarfile.TarFile) -> Manifest:
    first = packed.next()
    source = packed.extractfile(first) if first is not None and first.name == _MANIFEST else None
    if source is None:
        raise BackupUnusable("This is not a backup of CodeHub: it does not begin with a manifest.")
    document = source.read(_MAX_MANIFEST_BYTES)
    if (written := json.loads(document)["format"]) != FORMAT:
        raise BackupUnusable(
            f"This backup has the format {str(written)[:40]!r}; this CodeHub reads {FORMAT!r}. "
            "Use the CodeHub that made it, or a newer one."
        )
    return _MANIFESTS.validate_json(document)


def _unpack_table(packed: tarfile.TarFile, table: TableCopy, directory: Path) -> None:
    if not table.name.isidentifier():
        raise BackupUnusable(f"The backup is damaged: {table.name[:60]!r} is no name of a table.")
    source = packed.extractfile(table.member)
    assert source is not None
    with (directory / table.member).open("xb") as output:
        size, checksum = _copy(source, output, at_most=table.size)
    if size != table.size or checksum != table.sha256:
        raise BackupUnusable(f"The backup is damaged: the rows of {table.name} are not those it was made of.")


def _copy(source: IO[bytes], output: IO[bytes], *, at_most: int) -> tuple[int, str]:
    """Copy up to one piece more than ``at_most`` bytes: a file that is longer shows, and does not fill the disk."""
    size, digest = 0, hashlib.sha256()
    while size <= at_most and (piece := source.read(_PIECE)):
        output.write(piece)
        digest.update(piece)
        size += len(piece)
    return size, digest.hexdigest()


def checksum_of(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        if error.filename == str(path):
            raise BackupUnusable(f"There is no file {path}.") from error
        raise
    except _UNREADABLE as error:
        raise BackupUnusable(f"{path} is not a backup of CodeHub, or is damaged: {error}") from error


def _sync(directory: Path) -> None:
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
