"""Snapshots: archives that a person named, kept until that person deletes them.

A *snapshot* is a committed archive with a name (``workspaces.snapshots``). ``WantedSnapshot`` is the intent
(``workspaces.snapshot_as``): services write it, and the next archive that is committed meets it, in the same statement.
An archiving that is begun for a snapshot alone keeps the volume (``HomeContext.keeps_volume``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

MAX_SNAPSHOTS = 50
"""Of one workspace. They are in its row, and each keeps its archive from the archive GC."""


@dataclass(frozen=True)
class WantedSnapshot:
    """A snapshot a person asked for, which is not made yet."""

    id: UUID
    name: str
    asked_at: datetime

    def as_json(self) -> dict[str, Any]:
        return {"id": str(self.id), "name": self.name, "asked_at": self.asked_at.isoformat()}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "WantedSnapshot":
        return cls(UUID(value["id"]), str(value["name"]), datetime.fromisoformat(value["asked_at"]))


@dataclass(frozen=True)
class Snapshot:
    """A named archive. ``sha256``: what is restored of it must have it."""

    id: UUID
    name: str
    archive_key: str
    created_at: datetime
    sha256: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "name": self.name,
            "archive_key": self.archive_key,
            "created_at": self.created_at.isoformat(),
            "sha256": self.sha256,
            "sizes": dict(self.sizes),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Snapshot":
        return cls(
            id=UUID(value["id"]),
            name=str(value["name"]),
            archive_key=str(value["archive_key"]),
            created_at=datetime.fromisoformat(value["created_at"] or value["asked_at"]),
            sha256=value.get("sha256"),
            sizes=value.get("sizes") or {},
        )


Snapshots = tuple[Snapshot, ...]


def find(snapshots: Sequence[Snapshot], snapshot_id: UUID) -> Snapshot | None:
    return next((each for each in snapshots if each.id == snapshot_id), None)


def keys_of(snapshots: Sequence[Snapshot]) -> frozenset[str]:
    return frozenset(each.archive_key for each in snapshots)
