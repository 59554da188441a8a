"""Settings of the SSH gateway."""

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, field_validator

from codehub.server.bind import Bind
from codehub.server.settings.variables import Group, variable


def _bind_or_none(value: object) -> Bind | None:
    return Bind.parse(value) if value else None


class SshSettings(Group):
    bind: Annotated[Bind | None, BeforeValidator(_bind_or_none)] = variable(
        "CODEHUB_SSH_BIND",
        meaning="Address and port of the SSH gateway, as 0.0.0.0:2222; served by processes with the api role",
        shown="none: there is no gateway",
    )
    address: str | None = variable(
        "CODEHUB_SSH_ADDRESS",
        meaning="How people reach the SSH gateway, as codehub.example.org:2222; only shown to them",
        shown="the host of CODEHUB_BASE_URL and the port of CODEHUB_SSH_BIND",
    )

    @field_validator("address")
    @classmethod
    def _is_address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(f"ssh://{value.strip()}")
            fits = parts.hostname and parts.port and parts.netloc == value.strip() and "@" not in value
        except ValueError:
            fits = False
        if not fits:
            raise ValueError("host:port is needed, as codehub.example.org:2222")
        return value.strip()

    def shown_address(self, base_url: str, *, port: int) -> tuple[str, int]:
        """Host and port that people are told. ``port``: the one that is listened on."""
        parts = urlsplit(f"ssh://{self.address}") if self.address is not None else urlsplit(base_url)
        shown = parts.port if self.address is not None else port
        return parts.hostname or "localhost", shown or port
