"""Bodies of ``/tokens``."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.base import RequestBody, ResponseBody
from codehub.api.schemas.fields import Name


class NewToken(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": {"name": "laptop", "expires_in_days": 90}})

    name: Name
    expires_in_days: int | None = Field(None, ge=1, le=3650, strict=True, description="null: never")


class Token(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.TOKEN}, from_attributes=True)

    id: UUID
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class TokenShownOnce(Token):
    model_config = ConfigDict(
        json_schema_extra={"example": {**examples.TOKEN, "token": "chp_this-is-shown-once"}}
    )

    token: str
