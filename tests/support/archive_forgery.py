"""Archives that CodeHub would never write, put into a directory store with a meta that matches."""

import hashlib
import io
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import zstandard

from codehub.archives.keys import ArchivePath, new_attempt
from codehub.archives.meta import ArchiveMeta, encode_meta

Change = Callable[[tarfile.TarInfo], None]


def tar_of(*members: tarfile.TarInfo, format: int = tarfile.PAX_FORMAT) -> bytes:
    """A tar of ``members``; regular ones get as many zero bytes as their size says."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
        for member in members:
            archive.addfile(member, io.BytesIO(bytes(member.size)) if member.isreg() else None)
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, *, target: str = "", size: int = 0) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size, info.mode = kind, target, size, 0o755
    return info


def plant(store: Path, workspace_id: UUID, raw: bytes, *, meta: ArchiveMeta | None = None) -> ArchivePath:
    """Store ``raw`` as an archive. Without ``meta``, one that fits."""
    path = new_attempt(workspace_id, uuid4())
    (store / path.key).parent.mkdir(parents=True)
    (store / path.key).write_bytes(raw)
    (store / path.meta_key).write_bytes(encode_meta(meta or meta_of(raw)))
    return path


def meta_of(raw: bytes, *, uncompressed_bytes: int = 1 << 30) -> ArchiveMeta:
    return ArchiveMeta(
        sha256=hashlib.sha256(raw).hexdigest(),
        bytes=len(raw),
        files=1,
        uncompressed_bytes=uncompressed_bytes,
        skipped=0,
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def plant_tar(store: Path, workspace_id: UUID, tar: bytes) -> ArchivePath:
    raw = zstandard.ZstdCompressor().compress(tar)
    return plant(store, workspace_id, raw, meta=meta_of(raw, uncompressed_bytes=len(tar)))
