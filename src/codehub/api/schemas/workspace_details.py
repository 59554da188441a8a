"""Bodies of a workspace's timeline and archives."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.base import RequestBody, ResponseBody
from codehub.api.schemas.workspaces import NamedSnapshot
from codehub.domain.causes import CauseCode


class HistoryEntry(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.HISTORY_ENTRY})

    seq: int
    version: int
    at: datetime
    changes: dict[str, tuple[Any, Any]] = Field(description="Column → [before, after]")
    actor: str | None
    cause: str | None = Field(description="English text, as recorded")
    cause_code: CauseCode | None = Field(description="Null: free text, for example an engine's own message")
    cause_params: dict[str, int] = Field(description="`seconds`, where the cause has a duration")


class ArchiveGeneration(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.ARCHIVE})

    key: str
    bytes: int
    files: int
    sha256: str
    created_at: datetime
    current: bool = Field(description="It is the archive the workspace is restored from")
    chosen: bool = Field(description="The workspace is to return to it")
    damaged: bool = Field(description="A restore found it missing or damaged")
    expiring: bool = Field(description="Not kept any longer: it is about to be removed and cannot be chosen")
    snapshot: NamedSnapshot | None = Field(
        description="The name it is kept under until that is deleted; null: it is no snapshot"
    )


class RestoreArchive(RequestBody):
    """The archive to return to: the parts of its `key` after the workspace."""

    model_config = ConfigDict(json_schema_extra={"example": examples.RESTORE})

    op_id: UUID
    attempt: str = Field(pattern="^[0-9a-f]{32}$")
    start: bool = Field(False, strict=True, description="Start it afterwards (desired state RUNNING)")
