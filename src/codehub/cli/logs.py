"""Command ``codehub ws logs``: show or follow a workspace's output."""

import json as json_module
import re
import sys
from typing import TYPE_CHECKING

import typer

from codehub.cli.failures import Unreachable
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import out, print_json, print_json_line
from codehub.cli.references import get_workspace
from codehub.cli.words import clean

if TYPE_CHECKING:
    from codehub.cli.client import Client

READ_TIMEOUT_SECONDS = 75.0
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def show(
    workspace: str = WORKSPACE,
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on as it comes. Ends with the workspace."),
    json: bool = JSON,
) -> None:
    """Show its recent output."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        if follow:
            _follow(client, ws["id"], json=json)
        elif json:
            print_json({"id": ws["id"], "name": ws["name"], "output": "".join(client.logs(ws["id"]))})
        else:
            for piece in client.logs(ws["id"]):
                _write(piece)


def _follow(client: "Client", workspace_id: str, *, json: bool) -> None:
    """Follow over one connection. No reconnect: output of the gap would be shown twice or never."""
    with client.events(workspace_id, "logs", read_seconds=READ_TIMEOUT_SECONDS) as events:
        try:
            for event in events:
                if event.name != "log":
                    continue
                if json:
                    print_json_line(json_module.loads(event.data))
                else:
                    _write(str(json_module.loads(event.data)["text"]))
        except Unreachable as error:
            raise Unreachable(f"The connection broke, the output may go on. {error}") from error


def _write(text: str) -> None:
    """Write output: unchanged into a file; to a terminal with no control sequences but colours."""
    if out.is_terminal:
        parts = _COLOUR.split(text.replace("\r\n", "\n"))
        text = "".join(part if index % 2 else clean(part) for index, part in enumerate(parts))
    sys.stdout.write(text)
    sys.stdout.flush()
