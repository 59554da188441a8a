"""Copies: a workspace whose first home is another workspace's archive.

``workspaces.copy_of`` is written when the copy is created and never changes. The archive stays in the folder of the
workspace it was made of; the row of the copy vouches for it. The archive GC keeps it for as long as the row names it,
which ends with the copy's own first archive.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID


@dataclass(frozen=True)
class CopySource:
    """The archive a copy begins with, and the workspace in whose folder it is."""

    workspace_id: UUID
    archive_key: str

    def as_json(self) -> dict[str, Any]:
        return {"workspace_id": str(self.workspace_id), "archive_key": self.archive_key}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "CopySource":
        return cls(UUID(value["workspace_id"]), str(value["archive_key"]))
