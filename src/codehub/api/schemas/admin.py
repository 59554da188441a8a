"""Bodies of ``/admin``."""

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.base import ResponseBody
from codehub.services.overview import OrphanReason


class Leader(ResponseBody):
    name: str
    holder_id: str
    acquired_at: datetime
    epoch: int
    last_tick_at: datetime | None


class Overview(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.OVERVIEW})

    counts: dict[str, int] = Field(description="Workspaces by status")
    leaders: list[Leader]
    archive_bytes: int | None = Field(description="null: the archive store did not answer in time")


class Orphan(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.ORPHAN})

    kind: Literal["container", "volume", "archive"]
    name: str
    first_seen_at: datetime | None
    bytes: int | None
    why: OrphanReason


class Setting(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.SETTING})

    name: str = Field(description="The environment variable")
    value: str | None = Field(description="null: not set, or a secret, which is never shown")
    default: str
    meaning: str
    secret: bool
    changed: bool = Field(description="It is not the default")


class AuditEntry(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.AUDIT_ENTRY})

    seq: int
    at: datetime
    actor: str
    action: str
    subject: str | None
    detail: dict[str, Any]
