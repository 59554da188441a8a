"""Bodies of ``/ssh-keys``."""

from datetime import datetime
from uuid import UUID

from pydantic import ConfigDict, Field

from codehub.api.schemas import examples
from codehub.api.schemas.base import Page, RequestBody, ResponseBody
from codehub.api.schemas.fields import Name
from codehub.domain.ssh_keys import MAX_TEXT


class NewSshKey(RequestBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {"name": "laptop", "public_key": examples.SSH_KEY["public_key"] + " ann@laptop"}
        }
    )

    name: Name
    public_key: str = Field(
        min_length=1, max_length=MAX_TEXT, description="One line, as in a file that ends in .pub"
    )


class SshKey(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.SSH_KEY}, from_attributes=True)

    id: UUID
    name: str
    public_key: str = Field(description="Type and key, without a comment")
    fingerprint: str = Field(description="As `ssh-keygen -l` shows it")
    added_at: datetime
    last_used_at: datetime | None


class SshGateway(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": examples.SSH_GATEWAY}, from_attributes=True)

    host: str
    port: int
    host_key: str = Field(description="As `known_hosts` has it, without a name")
    fingerprint: str = Field(description="Of the host key, as `ssh` shows it before the first connection")


class SshKeys(Page[SshKey]):
    gateway: SshGateway | None = Field(description="Where these keys are used; null: there is no SSH gateway")
