"""``home.tar.zst.meta``: what is known about an archive, and by its existence the proof that it is whole.

Written last, after the object was read back. Small JSON, so that an operator can read it with ``cat``.
The parser believes nothing: a restore acts on these numbers before it has seen a byte of the archive.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from codehub.domain.errors import EffectError, FailureCode

FORMAT_VERSION = 1
MAX_META_BYTES = 64 * 1024
"""A meta is below one KiB; whatever is larger than this is not one and is not read into memory."""


@dataclass(frozen=True)
class ArchiveMeta:
    """Version 1: one zstd frame holding one POSIX tar of the home, names relative to it."""

    sha256: str  # of the object as it is stored, in hex
    bytes: int  # size of the object
    files: int  # everything but directories
    uncompressed_bytes: int  # length of the tar stream
    skipped: int  # sockets, which no archive can hold
    created_at: datetime
    format_version: int = FORMAT_VERSION


def encode_meta(meta: ArchiveMeta) -> bytes:
    document = asdict(meta) | {"created_at": meta.created_at.astimezone(UTC).isoformat()}
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def parse_meta(raw: bytes, *, key: str) -> ArchiveMeta:
    """Strictly; ``key`` only names the culprit.

    Raises ``CHECKSUM_MISMATCH`` (data lost) for a damaged meta, and for one of a newer CodeHub
    ``TAR_EXTRACT_FAILED`` (the data is fine, this program is too old for it).
    """
    document = _load_object(raw, key)
    version = document.get("format_version")
    if _is_count(version) and version != FORMAT_VERSION:
        raise EffectError(
            FailureCode.TAR_EXTRACT_FAILED,
            f"The archive has format version {version}; this CodeHub reads version {FORMAT_VERSION}. "
            "It was probably written by a newer release: restore it with that one.",
            archive_key=key,
            format_version=version,
        )
    try:
        return ArchiveMeta(
            format_version=_count(document, "format_version"),
            sha256=_sha256(document),
            bytes=_count(document, "bytes"),
            files=_count(document, "files"),
            uncompressed_bytes=_count(document, "uncompressed_bytes"),
            skipped=_count(document, "skipped"),
            created_at=_moment(document),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(key, f"field {error}") from error


def _load_object(raw: bytes, key: str) -> Mapping[str, Any]:
    try:
        document = json.loads(raw)
    except ValueError as error:  # UnicodeDecodeError is one too
        raise _damaged(key, "not JSON") from error
    if not isinstance(document, dict):
        raise _damaged(key, "not a JSON object")
    return document


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _count(document: Mapping[str, Any], field: str) -> int:
    value = document[field]
    if not _is_count(value):
        raise ValueError(field)
    return int(value)


def _sha256(document: Mapping[str, Any]) -> str:
    value = document["sha256"]
    if not isinstance(value, str) or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError("sha256")
    return value


def _moment(document: Mapping[str, Any]) -> datetime:
    moment = datetime.fromisoformat(document["created_at"])
    if moment.tzinfo is None:
        raise ValueError("created_at")
    return moment


def _damaged(key: str, detail: str) -> EffectError:
    return EffectError(
        FailureCode.CHECKSUM_MISMATCH,
        f"The meta of the archive is damaged ({detail}).",
        archive_key=key,
        detail=f"damaged meta: {detail}",
    )
