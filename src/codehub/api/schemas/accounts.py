"""Bodies of ``/auth`` and ``/users``."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.base import RequestBody, ResponseBody
from codehub.api.schemas.fields import GivenPassword, NewPassword, Username
from codehub.domain.states import Role


class Login(RequestBody):
    model_config = ConfigDict(json_schema_extra={"example": {"username": "ann", "password": "correct horse"}})

    username: Username
    password: GivenPassword


class PasswordChange(RequestBody):
    model_config = ConfigDict(
        json_schema_extra={"example": {"current": "correct horse", "new": "battery staple"}}
    )

    current: GivenPassword
    new: NewPassword


class User(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.USER}, from_attributes=True)

    id: UUID
    username: str
    role: Role
    created_at: datetime
    disabled_at: datetime | None


class SessionInfo(ResponseBody):
    user: User


class NewUser(RequestBody):
    model_config = ConfigDict(
        json_schema_extra={"example": {"username": "ann", "password": "correct horse", "role": "user"}}
    )

    username: Username = Field(description="Letters, digits and . _ @ -, beginning with a letter or digit")
    password: NewPassword
    role: Role = Role.USER


class UserChange(RequestBody):
    """Only fields that are sent change. A password or disabling ends all sessions."""

    model_config = ConfigDict(json_schema_extra={"example": {"disabled": True}})

    role: Role | None = None
    disabled: bool | None = Field(None, strict=True)
    password: NewPassword | None = None
