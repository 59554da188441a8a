"""Commands ``codehub ws share``, ``unshare`` and ``shares``: who may open a port besides its owner."""

from enum import StrEnum
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import err, out, print_json, print_table
from codehub.cli.port_calls import delete_share, get_shares, put_share
from codehub.cli.references import get_workspace
from codehub.cli.words import clean

if TYPE_CHECKING:
    from codehub.cli.answers import Share

PORT = typer.Argument(help="The port.", metavar="PORT", min=1, max=65535, show_default=False)


class Level(StrEnum):
    """Share levels, as they are typed."""

    PRIVATE = "private"
    SIGNED_IN = "signed-in"
    PUBLIC = "public"


def register(workspaces: typer.Typer) -> None:
    """Add the commands to ``codehub ws``."""
    workspaces.command(name="shares")(list_shares)
    workspaces.command(name="share")(share)
    workspaces.command(name="unshare")(unshare)


def openness(shared: "Share | None") -> str:
    """Who may open a port, in a few words."""
    if shared is None:
        return "you"
    label = f" ({clean(shared['label'])})" if shared["label"] else ""
    words = {"private": "you", "signed_in": "signed-in people", "public": "whoever has the link"}
    until = (
        f" until {shared['expires_at']}" if shared["expires_at"] and shared["level_now"] != "private" else ""
    )
    over = ", the share is over" if shared["level"] != shared["level_now"] else ""
    return f"{words[shared['level_now']]}{until}{over}{label}"


def list_shares(workspace: str = WORKSPACE, json: bool = JSON) -> None:
    """Show labelled and shared ports, whether the workspace runs or not."""
    with connect() as client:
        found = get_shares(client, get_workspace(client, workspace)["id"])
    if json:
        print_json(found)
        return
    if not found["shares"]:
        err.print("No port is shared or has a label.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("port", "open to"):
        table.add_column(title, no_wrap=True)
    table.add_column("opened at", overflow="fold")
    for each in found["shares"]:
        table.add_row(*map(Text, (str(each["port"]), openness(each), each["link"] or each["url"])))
    print_table(table)


def share(
    workspace: str = WORKSPACE,
    port: int = PORT,
    level: Level = typer.Option(
        Level.SIGNED_IN,
        "--level",
        help="Who may open it besides you: nobody, signed-in people, whoever has a link.",
    ),
    hours: float | None = typer.Option(
        None, "--hours", min=0.02, help="For how long. A public link lasts a day if nothing is said."
    ),
    label: str | None = typer.Option(None, "--label", help="What it is, for you to know it again."),
    new_link: bool = typer.Option(
        False, "--new-link", help="End the public link there is, and make another."
    ),
    json: bool = JSON,
) -> None:
    """Share a port at its own address, or label it. Visitors neither wake the workspace nor keep it awake."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        if label is None:
            known = {each["port"]: each["label"] for each in get_shares(client, ws["id"])["shares"]}
            label = known.get(port, "")
        wanted = {
            "level": level.value.replace("-", "_"),
            "label": label,
            "lasts_seconds": round(hours * 3600) if hours is not None else None,
            "new_link": new_link,
        }
        made = put_share(client, ws["id"], port, wanted)
    if json:
        print_json(made)
        return
    err.print(f"Port {port} of {clean(ws['name'])} is open to {openness(made)}.", markup=False)
    if made["link"]:
        err.print("Whoever has this link gets in:")
    out.print(Text(made["link"] or made["url"]), soft_wrap=True)


def unshare(workspace: str = WORKSPACE, port: int = PORT) -> None:
    """Take a share back, and its label. Who is there is cut off at once."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        delete_share(client, ws["id"], port)
    err.print(f"Port {port} of {clean(ws['name'])} is open to you alone.", markup=False)
