"""Commands ``codehub admin …``: overview, orphans, findings and their repairs."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.options import JSON, connect
from codehub.cli.output import out, print_json, print_table
from codehub.cli.words import ago, clean, size, status_style

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.cli.answers import Finding, Leader, Orphan

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
    disk = f", {savings.get('gb_not_on_disk', 0.0):,.1f} GB not on disk now"
    out.print(
        f"saved by sleeping this month: {savings['hours_saved']:,.0f} running hours{disk}{price}\n",
        markup=False,
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


KINDS = {
    "error": "error",
    "volume_vanished": "home is gone",
    "archiving_given_up": "archiving given up",
    "long_operation": "takes long",
    "only_copy": "only copy",
    "unknown_container": "unknown container",
    "unknown_volume": "unknown volume",
    "unknown_archive": "unknown archive",
    "retained_volume": "volume kept",
    "expiring_archive": "old archive",
}


class Repair(StrEnum):
    RECOVER = "recover"
    RETURN_TO_NEWEST = "return-to-newest"
    ADOPT = "adopt"


@app.command()
def findings(json: bool = JSON) -> None:
    """Where database, engine and archive store disagree, and what repairs it."""
    with connect() as client:
        found = client.findings()
        now = client.now
    if json:
        print_json(found)
        return
    if not found:
        out.print("Nothing disagrees.")
        return
    print_table(findings_table(found, now=now))
    if any(each["repairs"] for each in found):
        out.print("\ncodehub admin repair ID REPAIR", markup=False)


def findings_table(found: list["Finding"], *, now: "datetime") -> Table:
    """Build the table of what disagrees."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("what", "of", "id", "since", "repair"):
        table.add_column(title, overflow="fold")
    for each in found:
        owner = f" ({each['owner']})" if each["owner"] else ""
        table.add_row(
            KINDS.get(each["kind"], each["kind"]),
            Text(clean(each["name"] + owner if each["name"] else each["subject"])),
            each["workspace_id"] or "",
            ago(each["since"], now=now) if each["since"] else "",
            ", ".join(repair.replace("_", "-") for repair in each["repairs"]),
        )
    return table


@app.command()
def repair(
    workspace_id: Annotated[UUID, typer.Argument(metavar="ID", help="As `codehub admin findings` lists it")],
    repair: Annotated[Repair, typer.Argument(metavar="REPAIR", help="recover, return-to-newest or adopt")],
    name: Annotated[str | None, typer.Option(help="adopt: the new workspace's name")] = None,
    image: Annotated[str | None, typer.Option(help="adopt: the new workspace's image")] = None,
) -> None:
    """Repair what disagrees. Nothing is started or overwritten by it.

    recover lifts an error; return-to-newest makes the newest archive in the store the home; adopt makes a
    workspace of yours for a volume or an archive that has none.
    """
    with connect() as client:
        done = client.repair(str(workspace_id), repair.replace("-", "_"), name=name, image_ref=image)
    out.print(f"{clean(done['name'])}: CodeHub goes on from here.", markup=False)
