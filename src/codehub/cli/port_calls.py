"""Calls of the API about ports of workspaces, for the commands."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from codehub.cli.answers import Ports, Share, Shares

if TYPE_CHECKING:
    from codehub.cli.client import Client


def get_ports(client: "Client", workspace_id: str) -> Ports:
    """Return what listens there. Wakes nothing."""
    return cast(Ports, client.call("GET", f"/workspaces/{workspace_id}/ports"))


def get_shares(client: "Client", workspace_id: str) -> Shares:
    """Return labels and shares of its ports, whether it runs or not."""
    return cast(Shares, client.call("GET", f"/workspaces/{workspace_id}/shares"))


def put_share(client: "Client", workspace_id: str, port: int, wanted: Mapping[str, Any]) -> Share:
    """Label or share a port."""
    return cast(Share, client.call("PUT", f"/workspaces/{workspace_id}/shares/{port}", body=wanted))


def delete_share(client: "Client", workspace_id: str, port: int) -> None:
    """Remove a port's label and share."""
    client.call("DELETE", f"/workspaces/{workspace_id}/shares/{port}")
