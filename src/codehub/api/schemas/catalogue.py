"""Bodies of ``/images`` and ``/limits``."""

from pydantic import ConfigDict, Field

from codehub.api.schemas.base import ResponseBody


class Image(ResponseBody):
    name: str
    node_local_home: bool = Field(
        description="Homes of its workspaces are on one node: a lost node is a lost home, up to its last archive"
    )


class Images(ResponseBody):
    """Images of the runtime. No items: any image is accepted."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {"items": [{"name": "jupyterlab", "node_local_home": False}], "default": "jupyterlab"}
        }
    )

    items: list[Image]
    default: str | None


class Usage(ResponseBody):
    used: int
    allowed: int


class Limits(ResponseBody):
    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "user": {"used": 1, "allowed": 2},
                "global": {"used": 7, "allowed": 100},
                "attempts": 4,
            }
        }
    )

    user: Usage
    global_: Usage = Field(alias="global")
    attempts: int = Field(description="Attempts of an operation before a terminal error")
