"""Bodies of ``/workspaces/{id}/ssh``."""

from pydantic import Field

from codehub.api.schemas.base import ResponseBody


class SshHost(ResponseBody):
    """A workspace as an SSH client knows it."""

    host_key: str = Field(
        description="As known_hosts has it", examples=["ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAOhB7/zzhC+HXDd"]
    )
