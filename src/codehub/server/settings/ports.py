"""How far people may share ports of their workspaces."""

from typing import Annotated

from pydantic import BeforeValidator

from codehub.domain.port_shares import ShareLevel
from codehub.server.settings.variables import Group, variable


def _level(value: object) -> object:
    return value.strip().lower().replace("-", "_") if isinstance(value, str) else value


class PortSettings(Group):
    share_ceiling: Annotated[ShareLevel, BeforeValidator(_level)] = variable(
        "CODEHUB_PORT_SHARE_CEILING",
        ShareLevel.SIGNED_IN,
        meaning="How far people may share ports of their workspaces: private, signed_in or public",
    )
    share_max_hours: int = variable(
        "CODEHUB_PORT_SHARE_MAX_HOURS",
        168,
        meaning="Hours that a public link to a port may last",
        ge=1,
        le=8760,
    )
