"""Commands ``codehub admin …``: overview and orphans."""

from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.options import JSON, connect
from codehub.cli.output import out, print_json, print_table
from codehub.cli.words import ago, clean, size, status_style

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.cli.answers import Leader, Orphan

app = typer.Typer(help="For administrators.", no_args_is_help=True)


WHY = {
    "unknown_workspace": "unknown workspace",
    "expiring": "will be removed",
    "only_copy": "kept: the only copy",
    "retained": "kept by its storage class: remove it by hand",
}


@app.command()
def overview(json: bool = JSON) -> None:
    """How many workspaces are how, who leads what, and how much is archived."""
    with connect() as client:
        seen = client.overview()
        savings = client.all_savings()
        now = client.now
    if json:
        print_json(seen)
        return
    counts = Table(box=None, pad_edge=False, header_style="bold")
    counts.add_column("status")
    counts.add_column("workspaces", justify="right")
    for status, count in sorted(seen["counts"].items(), key=lambda item: -item[1]):
        counts.add_row(Text(status, status_style(status)), str(count))
    print_table(counts)
    known = seen["archive_bytes"]
    out.print(f"\narchives: {'not known yet' if known is None else size(known)}", markup=False)
    price = "" if savings["money"] is None else f", {savings['money']:,.2f} {savings['currency']}"
    out.print(
        f"saved by sleeping this month: {savings['hours_saved']:,.0f} running hours{price}\n", markup=False
    )
    print_table(leaders_table(seen["leaders"], now=now))


def leaders_table(found: list["Leader"], *, now: "datetime") -> Table:
    """Build the table of leaders."""
    leaders = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("coordinator", "led by", "since", "term", "last tick"):
        leaders.add_column(title, overflow="fold")
    for leader in found:
        leaders.add_row(
            clean(leader["name"].removeprefix("coordinator:")),
            Text(clean(leader["holder_id"])),
            ago(leader["acquired_at"], now=now),
            str(leader["epoch"]),
            ago(leader["last_tick_at"], now=now) if leader["last_tick_at"] else "",
        )
    return leaders


@app.command()
def orphans(json: bool = JSON) -> None:
    """What exists and belongs to no workspace. Nothing is removed by looking."""
    with connect() as client:
        found = client.orphans()
        now = client.now
    if json:
        print_json(found)
        return
    if not found:
        out.print("Nothing is without an owner.")
        return
    print_table(orphans_table(found, now=now))


def orphans_table(found: list["Orphan"], *, now: "datetime") -> Table:
    """Build the table of what belongs to no workspace."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("kind", "name", "why", "seen first"):
        table.add_column(title, overflow="fold")
    table.add_column("size", justify="right")
    for orphan in found:
        since, bytes_ = orphan["first_seen_at"], orphan["bytes"]
        table.add_row(
            orphan["kind"],
            Text(clean(orphan["name"])),
            WHY.get(orphan["why"], orphan["why"]),
            ago(since, now=now) if since else "",
            size(bytes_) if bytes_ is not None else "",
        )
    return table
