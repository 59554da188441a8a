"""Bodies of ``/workspaces/{id}/ports`` and ``/workspaces/{id}/shares``."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from codehub.api.schemas.base import RequestBody, ResponseBody
from codehub.api.schemas.fields import Label
from codehub.domain.port_shares import MAX_SHARES, ShareLevel

PortNumber = Annotated[int, Field(ge=1, le=65535)]

SHARE: dict[str, Any] = {
    "port": 5173,
    "label": "the demo",
    "level": "public",
    "level_now": "public",
    "expires_at": "2025-01-02T12:00:00Z",
    "url": "https://5173--0191f3a2-0000-7000-8000-000000000001.codehub.example.org/",
    "link": "https://5173--0191f3a2-0000-7000-8000-000000000001.codehub.example.org/_codehub/share?key=k3y",
}


class Port(ResponseBody):
    """A TCP port on which something listens in the workspace."""

    port: PortNumber
    addresses: list[str] = Field(description="What it is bound to")
    process: str | None = Field(description="Null: the workspace's user may not see it")
    is_ide: bool = Field(description="The IDE's own, which is the workspace's link")
    url: str = Field(description="Where the owner's browser reaches it")


class Ports(ResponseBody):
    """What listens now, by port, and the home as the workspace itself names it."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "ports": [
                    {
                        "port": 3000,
                        "addresses": ["0.0.0.0"],
                        "process": "node",
                        "is_ide": False,
                        "url": "https://codehub.example.org/w/0191f3a2-0000-7000-8000-000000000001/port/3000/",
                    }
                ],
                "truncated": False,
                "home": "/home/jovyan",
            }
        }
    )

    ports: list[Port]
    truncated: bool = Field(description="There are more than are listed")
    home: str | None


class NewShare(RequestBody):
    """Label and share level of a port. Replaces what was there."""

    model_config = ConfigDict(
        json_schema_extra={"example": {"level": "public", "label": "the demo", "lasts_seconds": 86400}}
    )

    level: ShareLevel = Field(
        description="Who may open it besides the owner: nobody, signed-in people, the link"
    )
    label: Label = ""
    lasts_seconds: int | None = Field(
        None,
        ge=60,
        le=366 * 86400,
        strict=True,
        description="From now on. Null: a public link lasts a day, signed-in people until it is taken back",
    )
    new_link: bool = Field(False, description="Make a new public link: the earlier one is over")


class Share(ResponseBody):
    model_config = ConfigDict(json_schema_extra={"example": SHARE})

    port: PortNumber
    label: str
    level: ShareLevel
    level_now: ShareLevel = Field(
        description="`private` once it has expired, or while the installation allows less"
    )
    expires_at: datetime | None
    url: str = Field(description="Where it is opened")
    link: str | None = Field(description="The public link. Whoever has it gets in: treat it as a password")


class Shares(ResponseBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {"shares": [SHARE], "highest": "public", "lower_because": None, "max_link_hours": 168}
        }
    )

    shares: list[Share] = Field(max_length=MAX_SHARES)
    highest: ShareLevel = Field(description="The highest level that can be shared here")
    lower_because: Literal["no_base_domain", "ceiling"] | None = Field(
        description="Why not more; null: it is all"
    )
    max_link_hours: int = Field(description="How long a public link may last")
