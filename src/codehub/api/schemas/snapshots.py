"""Bodies of snapshots and copies."""

from typing import Self
from uuid import UUID

from pydantic import ConfigDict, Field, model_validator

from codehub.api.schemas import examples
from codehub.api.schemas.base import RequestBody
from codehub.api.schemas.fields import Name


class _OfArchive(RequestBody):
    """Names an archive by the parts of its `key` after the workspace; without both: the present home."""

    op_id: UUID | None = Field(None, description="Of an archive; null: the present home")
    attempt: str | None = Field(None, pattern="^[0-9a-f]{32}$", description="Of an archive, with `op_id`")

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.op_id is None) != (self.attempt is None):
            raise ValueError("op_id and attempt come together")
        return self


class NewSnapshot(_OfArchive):
    model_config = ConfigDict(json_schema_extra={"example": {"name": "before the upgrade"}})

    name: Name


class RenamedSnapshot(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": {"name": "before the upgrade"}})

    name: Name


class NewCopy(_OfArchive):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "name": "thesis-copy",
                "op_id": examples.RESTORE["op_id"],
                "attempt": examples.RESTORE["attempt"],
            }
        }
    )

    name: Name
    start: bool = Field(False, strict=True, description="Start it at once (desired state RUNNING)")
