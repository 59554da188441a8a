"""Bodies of ``/images`` and ``/limits``."""

from pydantic import ConfigDict, Field

from codehub.api.schemas.base import ResponseBody


class IdeInstallation(ResponseBody):
    """An IDE that CodeHub installs on its machine when a workspace first wants it."""

    version: str | None = Field(description="The version that is there; null: none yet")
    offered: str = Field(description="The version that `codehub ide install` gets")
    percent: int | None = Field(description="Of the installation that runs now; null: none does")
    fetched_mb: int = Field(description="About how much is fetched")
    disk_mb: int = Field(description="About how much disk it takes")


class Image(ResponseBody):
    name: str
    title: str | None = Field(description="What people call it; null: nothing but its name is known")
    node_local_home: bool = Field(
        description="Homes of its workspaces are on one node: a lost node is a lost home, up to its last archive"
    )
    installation: IdeInstallation | None = Field(
        description="Null: it is there, or is fetched by the container engine"
    )


class Images(ResponseBody):
    """Images of the runtime. No items: any image is accepted."""

    model_config = ConfigDict(
        json_schema_extra={
            "example": {
                "items": [
                    {"name": "jupyterlab", "title": None, "node_local_home": False, "installation": None}
                ],
                "default": "jupyterlab",
            }
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
