"""Parameters that routes into workspaces share."""

from typing import Annotated

from fastapi import Query

from codehub.api.schemas.files import WorkspacePath

Wake = Annotated[bool, Query(description="Start it if it sleeps. While it starts: 409 `waking`, try again")]
Path = Annotated[WorkspacePath, Query()]
