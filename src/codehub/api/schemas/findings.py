"""Bodies of ``/admin/findings``."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.base import RequestBody, ResponseBody
from codehub.api.schemas.fields import ImageRef, Name
from codehub.domain.states import Operation
from codehub.services.findings import FindingKind, Repair


class Finding(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.FINDING})

    kind: FindingKind
    subject: str = Field(description="The workspace's name, or that of what exists without one")
    workspace_id: UUID | None = Field(description="What a repair is asked for; it need not have a workspace")
    name: str | None
    owner: str | None
    since: datetime | None
    bytes: int | None
    message: str | None
    operation: Operation | None
    repairs: list[Repair] = Field(description="What may be asked for; empty: nothing, or it ends by itself")


class FindingRepair(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": {"repair": "adopt", "name": "found"}})

    repair: Repair
    name: Name | None = Field(default=None, description="`adopt`: of the new workspace")
    image_ref: ImageRef | None = Field(
        default=None, description="`adopt`: one of GET /images; null: the default"
    )
