"""``home.tar.zst.meta``: what is known about an archive, and by its existence the proof that it is whole.

Written last, after the object was read back. Small JSON, so that an operator can read it with ``cat``.
The parser believes nothing: a restore acts on these numbers before it has seen a byte of the archive.

``Binding`` says whose archive this is, so that no other one can take its place: neither another workspace's,
nor an empty one. Metas of older releases have none; they are read, and the timeline says so. It does not
change the format: older releases read a bound meta and pass over it.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode

FORMAT_VERSION = 1
MAX_META_BYTES = 64 * 1024
"""A meta is below one KiB; whatever is larger than this is not one and is not read into memory."""

_MOST = 2**63 - 1  # of anything that is counted
_MAX_FORMAT_VERSION = 1000
_LONGEST_ID = 100
_BINDING = ("workspace_id", "op_id", "installation_id")


@dataclass(frozen=True)
class Binding:
    """Whose archive it is, and which operation of whom made it."""

    workspace_id: UUID
    op_id: UUID
    installation_id: str


@dataclass(frozen=True)
class ArchiveMeta:
    """Version 1: one zstd frame holding one POSIX tar of the home, names relative to it."""

    sha256: str  # of the object as it is stored, in hex
    bytes: int  # size of the object
    files: int  # everything but directories
    uncompressed_bytes: int  # length of the tar stream
    skipped: int  # sockets, which no archive can hold
    created_at: datetime
    binding: Binding | None = None  # None: made by an older release
    format_version: int = FORMAT_VERSION


def encode_meta(meta: ArchiveMeta) -> bytes:
    document = asdict(meta) | {"created_at": meta.created_at.astimezone(UTC).isoformat()}
    del document["binding"]
    if meta.binding is not None:
        document |= {name: str(value) for name, value in asdict(meta.binding).items()}
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def parse_meta(raw: bytes, *, key: str) -> ArchiveMeta:
    """Strictly; ``key`` only names the culprit.

    Raises ``CHECKSUM_MISMATCH`` (data lost) for a damaged meta, and for one of a newer CodeHub
    ``TAR_EXTRACT_FAILED`` (the data is fine, this program is too old for it).
    """
    document = _load_object(raw, key)
    version: Any = document.get("format_version")
    if _is_count(version) and FORMAT_VERSION < version <= _MAX_FORMAT_VERSION:
        raise EffectError(
            FailureCode.TAR_EXTRACT_FAILED,
            f"The archive has format version {version}; this CodeHub reads version {FORMAT_VERSION}. "
            "It was probably written by a newer release: restore it with that one.",
            archive_key=key,
            format_version=version,
        )
    try:
        return ArchiveMeta(
            format_version=_format_version(document),
            sha256=_sha256(document),
            bytes=_count(document, "bytes"),
            files=_count(document, "files"),
            uncompressed_bytes=_count(document, "uncompressed_bytes"),
            skipped=_count(document, "skipped"),
            created_at=_moment(document),
            binding=_binding(document),
        )
    except _Unfit as error:
        raise _damaged(key, f"field {error}") from error


class _Unfit(Exception):
    """A field that is missing or holds something else. Named by us: its content may be anything."""


def _load_object(raw: bytes, key: str) -> Mapping[str, Any]:
    try:
        document = json.loads(raw)
    except (
        ValueError,
        RecursionError,
    ) as error:  # UnicodeDecodeError, and numbers of 5000 digits, are ValueErrors
        raise _damaged(key, "not JSON") from error
    if not isinstance(document, dict):
        raise _damaged(key, "not a JSON object")
    return document


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


def _count(document: Mapping[str, Any], field: str) -> int:
    value: Any = document.get(field)
    if not _is_count(value):
        raise _Unfit(field)
    return int(value)


def _format_version(document: Mapping[str, Any]) -> int:
    if _count(document, "format_version") != FORMAT_VERSION:
        raise _Unfit("format_version")
    return FORMAT_VERSION


def _sha256(document: Mapping[str, Any]) -> str:
    value = document.get("sha256")
    if not is_sha256(value):
        raise _Unfit("sha256")
    return str(value)


def is_sha256(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _moment(document: Mapping[str, Any]) -> datetime:
    try:
        moment = datetime.fromisoformat(document["created_at"])
    except (KeyError, TypeError, ValueError) as error:
        raise _Unfit("created_at") from error
    if moment.tzinfo is None:
        raise _Unfit("created_at")
    return moment


def _binding(document: Mapping[str, Any]) -> Binding | None:
    """All of it or none: half a binding is damage."""
    if not any(name in document for name in _BINDING):
        return None
    installation_id = document.get("installation_id")
    if not isinstance(installation_id, str) or not 0 < len(installation_id) <= _LONGEST_ID:
        raise _Unfit("installation_id")
    return Binding(_uuid(document, "workspace_id"), _uuid(document, "op_id"), installation_id)


def _uuid(document: Mapping[str, Any], field: str) -> UUID:
    try:
        return UUID(document[field])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _Unfit(field) from error


def _damaged(key: str, detail: str) -> EffectError:
    return EffectError(
        FailureCode.CHECKSUM_MISMATCH,
        f"The meta of the archive is damaged ({detail}).",
        archive_key=key,
        detail=f"damaged meta: {detail}",
    )
