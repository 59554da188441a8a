"""Names of archives: ``{workspace_id}/{op_id}/{attempt}/home.tar.zst``.

The meta is beside it, with the suffix ``.meta``. Every attempt has a path of its own, so nothing is ever
overwritten: a retry that dies half-way damages only its own object, never a complete one. The meta is the
commit marker; an object without it is debris.

``parse_key`` is strict on purpose. The archive GC deletes only keys that parse, so a key that merely looks
similar (upper case, braces, a deeper folder, other files in a shared bucket) must not parse.
"""

import re
from dataclasses import dataclass
from uuid import UUID

from codehub.kit.ids import uuid7

OBJECT_NAME = "home.tar.zst"
META_SUFFIX = ".meta"

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_KEY = re.compile(
    rf"(?P<workspace>{_UUID})/(?P<op>{_UUID})/(?P<attempt>[0-9a-f]{{32}})/{re.escape(OBJECT_NAME)}"
    rf"(?P<meta>{re.escape(META_SUFFIX)})?"
)


@dataclass(frozen=True, order=True)
class ArchivePath:
    """The path of one attempt. ``key`` is the value of ``workspaces.archive_key``."""

    workspace_id: UUID
    op_id: UUID
    attempt: str

    @property
    def key(self) -> str:
        return f"{self.workspace_id}/{self.op_id}/{self.attempt}/{OBJECT_NAME}"

    @property
    def meta_key(self) -> str:
        return self.key + META_SUFFIX


@dataclass(frozen=True)
class ParsedKey:
    """A parsed key: its attempt, and whether it is the object or its meta."""

    path: ArchivePath
    is_meta: bool


def new_attempt(workspace_id: UUID, op_id: UUID) -> ArchivePath:
    """Return a new, unused path.

    The attempt is a uuid7: unique by its random bits, readable by its time.
    """
    return ArchivePath(workspace_id=workspace_id, op_id=op_id, attempt=uuid7().hex)


def prefix_of(workspace_id: UUID, op_id: UUID | None = None) -> str:
    """Return the folder of a workspace, or of one operation of it."""
    return f"{workspace_id}" if op_id is None else f"{workspace_id}/{op_id}"


def parse_key(key: str) -> ParsedKey | None:
    """Return the attempt of a key; None unless it is exactly ours."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    path = ArchivePath(
        workspace_id=UUID(match["workspace"]), op_id=UUID(match["op"]), attempt=match["attempt"]
    )
    return ParsedKey(path=path, is_meta=match["meta"] is not None)


def parse_archive_key(key: str) -> ArchivePath | None:
    """Parse an ``archive_key``: the object's key, never its meta's."""
    parsed = parse_key(key)
    return parsed.path if parsed is not None and not parsed.is_meta else None
