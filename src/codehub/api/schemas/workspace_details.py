"""Bodies of a workspace's timeline and archives."""

from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.base import ResponseBody
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
