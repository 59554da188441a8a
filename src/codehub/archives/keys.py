"""Names of archives: ``{workspace_id}/{op_id}/{attempt}/home.tar.zst`` or ``…/home.manifest``.

The first is format 1, a whole home; the second is format 2, whose data is in ``packs/{workspace_id}/{sha256}``.
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

OBJECT_NAMES = {1: "home.tar.zst", 2: "home.manifest"}
PACKS = "packs"
META_SUFFIX = ".meta"

_UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_KEY = re.compile(
    rf"(?P<workspace>{_UUID})/(?P<op>{_UUID})/(?P<attempt>[0-9a-f]{{32}})/"
    rf"(?P<name>{'|'.join(map(re.escape, OBJECT_NAMES.values()))})(?P<meta>{re.escape(META_SUFFIX)})?"
)
_PACK = re.compile(rf"{PACKS}/(?P<workspace>{_UUID})/(?P<name>[0-9a-f]{{64}}|index)")
_FORMATS = {name: number for number, name in OBJECT_NAMES.items()}


@dataclass(frozen=True, order=True)
class ArchivePath:
    """The path of one attempt. ``key`` is the value of ``workspaces.archive_key``."""

    workspace_id: UUID
    op_id: UUID
    attempt: str
    format_version: int = 1

    @property
    def key(self) -> str:
        return f"{self.workspace_id}/{self.op_id}/{self.attempt}/{OBJECT_NAMES[self.format_version]}"

    @property
    def meta_key(self) -> str:
        return self.key + META_SUFFIX


@dataclass(frozen=True, order=True)
class PackPath:
    """A pack: chunks of one workspace's homes, named by the SHA-256 of its bytes.

    ``name`` is "index" for the file index (``file_index``), which is beside the packs and lives as long as they do.
    """

    workspace_id: UUID
    name: str

    @property
    def key(self) -> str:
        return f"{packs_prefix(self.workspace_id)}/{self.name}"


@dataclass(frozen=True)
class ParsedKey:
    """A parsed key: its attempt, and whether it is the object or its meta."""

    path: ArchivePath
    is_meta: bool


def new_attempt(workspace_id: UUID, op_id: UUID, format_version: int = 1) -> ArchivePath:
    """Return a new, unused path.

    The attempt is a uuid7: unique by its random bits, readable by its time.
    """
    return ArchivePath(workspace_id, op_id, uuid7().hex, format_version)


def prefix_of(workspace_id: UUID, op_id: UUID | None = None) -> str:
    """Return the folder of a workspace, or of one operation of it."""
    return f"{workspace_id}" if op_id is None else f"{workspace_id}/{op_id}"


def packs_prefix(workspace_id: UUID) -> str:
    """Return the folder of a workspace's packs."""
    return f"{PACKS}/{workspace_id}"


def parse_pack_key(key: str) -> PackPath | None:
    """Return the pack of a key; None unless it is exactly ours."""
    match = _PACK.fullmatch(key)
    return PackPath(UUID(match["workspace"]), match["name"]) if match is not None else None


def parse_key(key: str) -> ParsedKey | None:
    """Return the attempt of a key; None unless it is exactly ours."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    path = ArchivePath(UUID(match["workspace"]), UUID(match["op"]), match["attempt"], _FORMATS[match["name"]])
    return ParsedKey(path=path, is_meta=match["meta"] is not None)


def parse_archive_key(key: str) -> ArchivePath | None:
    """Parse an ``archive_key``: the object's key, never its meta's."""
    parsed = parse_key(key)
    return parsed.path if parsed is not None and not parsed.is_meta else None
