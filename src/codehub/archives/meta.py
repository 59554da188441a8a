"""``home.tar.zst.meta`` or ``home.manifest.meta``: facts about an archive; its existence is the commit.

Written last, after the object was read back. Small JSON, so that an operator can read it with ``cat``. The
parser is strict: a restore acts on these numbers before it has read a byte of the archive.

``Binding`` ties the archive to its workspace, so that no other one can be restored in its place: neither
another workspace's, nor an empty one. Metas of older releases have none; they are read, and the timeline
records that. It does not change the format: older releases ignore the binding.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from codehub.domain.errors import EffectError, FailureCode

FORMAT_VERSIONS = (1, 2)
MAX_META_BYTES = 64 * 1024
"""A meta is below one KiB; an object larger than this is none and is not read into memory."""

_MAX_COUNT = 2**63 - 1
_MAX_FORMAT_VERSION = 1000
_MAX_ID_LENGTH = 100
_VERSION_2 = ("end_bytes", "stored_bytes", "new_bytes", "since_full_read")
_BINDING = ("workspace_id", "op_id", "installation_id")


@dataclass(frozen=True)
class Binding:
    """The workspace, operation and installation an archive was made of."""

    workspace_id: UUID
    op_id: UUID
    installation_id: str


@dataclass(frozen=True)
class ArchiveMeta:
    """Version 1: one zstd frame with one POSIX tar of the home, names relative to it. Version 2: a manifest."""

    sha256: str  # of the object as it is stored, in hex
    bytes: int  # size of the object
    files: int  # everything but directories
    uncompressed_bytes: int  # length of the tar stream
    skipped: int  # sockets, which no archive can hold
    created_at: datetime
    binding: Binding | None = None  # None: made by an older release
    format_version: int = 1
    end_bytes: int = 0  # version 2: of the manifest, what a restore needs: its tail and footer
    stored_bytes: int = 0  # version 2: of the manifest and of all chunks it names
    new_bytes: int = 0  # version 2: what was uploaded for it
    since_full_read: int = 0  # version 2: generations since all files were read

    @property
    def data_bytes(self) -> int:
        """What the generation takes in the store by itself."""
        return self.stored_bytes or self.bytes


def encode_meta(meta: ArchiveMeta) -> bytes:
    document = asdict(meta) | {"created_at": meta.created_at.astimezone(UTC).isoformat()}
    del document["binding"]
    if meta.format_version == 1:  # as older releases write it
        for name in _VERSION_2:
            del document[name]
    if meta.binding is not None:
        document |= {name: str(value) for name, value in asdict(meta.binding).items()}
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def parse_meta(raw: bytes, *, key: str) -> ArchiveMeta:
    """Parse a meta strictly. ``key`` is used in errors only.

    Raises ``CHECKSUM_MISMATCH`` (data lost) for a damaged meta, and for one of a newer CodeHub
    ``TAR_EXTRACT_FAILED`` (the data is fine, this program is too old for it).
    """
    document = _load_object(raw, key)
    version: Any = document.get("format_version")
    newest = max(FORMAT_VERSIONS)
    if _is_count(version) and newest < version <= _MAX_FORMAT_VERSION:
        raise EffectError(
            FailureCode.TAR_EXTRACT_FAILED,
            f"The archive has format version {version}; this CodeHub reads version {newest}. "
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
            **{name: _count(document, name) for name in _VERSION_2 if version == 2},
        )
    except _Unfit as error:
        raise _damaged(key, f"field {error}") from error


class _Unfit(Exception):
    """A field is missing or invalid.

    Only its name is kept: the content may be anything.
    """


def _load_object(raw: bytes, key: str) -> Mapping[str, Any]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        # UnicodeDecodeError, and numbers of 5000 digits, are ValueErrors.
        raise _damaged(key, "not JSON") from error
    if not isinstance(document, dict):
        raise _damaged(key, "not a JSON object")
    return document


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT


def _count(document: Mapping[str, Any], field: str) -> int:
    value: Any = document.get(field)
    if not _is_count(value):
        raise _Unfit(field)
    return int(value)


def _format_version(document: Mapping[str, Any]) -> int:
    version = _count(document, "format_version")
    if version not in FORMAT_VERSIONS:
        raise _Unfit("format_version")
    return version


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
    """Read the binding, all of it or none: a partial binding is damage."""
    if not any(name in document for name in _BINDING):
        return None
    installation_id = document.get("installation_id")
    if not isinstance(installation_id, str) or not 0 < len(installation_id) <= _MAX_ID_LENGTH:
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
