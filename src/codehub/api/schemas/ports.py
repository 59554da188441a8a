"""Body of ``GET /workspaces/{id}/ports``."""

from pydantic import ConfigDict, Field

from codehub.api.schemas.base import ResponseBody


class Port(ResponseBody):
    """A TCP port on which something listens in the workspace."""

    port: int = Field(ge=1, le=65535)
    addresses: list[str] = Field(description="What it is bound to")
    process: str | None = Field(description="Null: the workspace's user may not see it")
    is_ide: bool = Field(description="The IDE's own, which is the workspace's link")
    url: str | None = Field(
        description="Where the owner's browser reaches it. Null: only the workspace's own loopback does, so it takes "
        "`codehub port-forward` or `ssh -L`"
    )


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
