"""Commands ``codehub ws snapshot``, ``ws snapshot-rename``, ``ws snapshot-delete`` and ``ws fork``."""

from typing import TYPE_CHECKING

import typer

from codehub.cli.archives import choose, key_of
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import err, out, print_json
from codehub.cli.references import get_workspace
from codehub.cli.words import clean

if TYPE_CHECKING:
    from codehub.cli.answers import ArchiveGeneration, Workspace
    from codehub.cli.client import Client

SNAPSHOT = typer.Argument(..., help="Its name, or its number in `codehub ws archives`.", show_default=False)
WAIT_SECONDS = typer.Option(None, "--timeout", help="Seconds to wait for it. It goes on all the same.")


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(snapshot)
    app.command(name="snapshot-rename")(rename)
    app.command(name="snapshot-delete")(delete)
    app.command()(fork)


def snapshot(
    workspace: str = WORKSPACE,
    name: str = typer.Option(..., "--as", help="What to call it.", show_default=False),
    archive: str | None = typer.Option(
        None, "--archive", "-a", help="Keep this archive instead: its number in `codehub ws archives`."
    ),
    timeout: float | None = WAIT_SECONDS,
    json: bool = JSON,
) -> None:
    """Keep a sleeping home as it is now, under a name, until you delete that. Nothing else changes."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        if archive is not None:
            found = client.archives(ws["id"])
            kept = choose(found, key_of(found, archive))
            client.take_snapshot(ws["id"], name, archive_key=kept["key"])
        kept = _find(client, ws, name) if archive is not None else _take(client, ws, name, timeout=timeout)
    if json:
        print_json(kept)
        return
    out.print(f'{clean(ws["name"])}: "{clean(name)}" is kept until you delete it.', markup=False)


def rename(
    workspace: str = WORKSPACE,
    snapshot: str = SNAPSHOT,
    name: str = typer.Argument(..., help="The new name.", show_default=False),
    json: bool = JSON,
) -> None:
    """Rename a snapshot."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        answer = client.rename_snapshot(ws["id"], _snapshot_id(client, ws, snapshot), name)
    _say(answer, f'It is called "{clean(name)}" now.', json=json)


def delete(workspace: str = WORKSPACE, snapshot: str = SNAPSHOT, json: bool = JSON) -> None:
    """Delete a snapshot: its archive is then kept no longer than any other."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        answer = client.delete_snapshot(ws["id"], _snapshot_id(client, ws, snapshot))
    _say(answer, "Deleted. Its archive goes when its time comes.", json=json)


def fork(
    workspace: str = WORKSPACE,
    new_name: str = typer.Argument(..., help="What to call the copy.", show_default=False),
    source: str | None = typer.Option(
        None, "--from", help="An archive: its number, key or snapshot's name. Default: the present home."
    ),
    start: bool = typer.Option(False, "--start", help="Start the copy at once."),
    timeout: float | None = WAIT_SECONDS,
    json: bool = JSON,
) -> None:
    """Open a copy: a new workspace with the files of this one. Of a home that sleeps, a snapshot is taken first."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        key = None
        if source is not None:
            found = client.archives(ws["id"])
            key = choose(found, key_of(found, source))["key"]
        elif ws["status"] != "archived":
            err.print("A snapshot is taken first.")
            key = _take(client, ws, f"For {new_name}"[:100], timeout=timeout)["key"]
        copy = client.open_copy(ws["id"], new_name, archive_key=key, start=start)
    _say(copy, f"{clean(new_name)} is a copy of {clean(ws['name'])}. Open it: {copy['url']}", json=json)


def _take(client: "Client", ws: "Workspace", name: str, *, timeout: float | None) -> "ArchiveGeneration":
    """Take a snapshot of the present home, and wait until it is there."""
    from codehub.cli.waiting import expect_no_error, until_settled

    answer = client.take_snapshot(ws["id"], name)
    if answer.get("snapshot_as") is not None:
        answer = until_settled(client, answer, quiet=False, timeout=timeout)
        expect_no_error(answer)
    return _find(client, ws, name)


def _find(client: "Client", ws: "Workspace", name: str) -> "ArchiveGeneration":
    for each in client.archives(ws["id"]):
        kept = each.get("snapshot")
        if kept is not None and kept["name"] == name:
            return each
    raise CommandError(
        f"There is no snapshot {clean(name)!r}: it was cancelled or given up. `codehub ws explain` says why.",
        ExitCode.CONFLICT,
    )


def _snapshot_id(client: "Client", ws: "Workspace", reference: str) -> str:
    wanted = ws.get("snapshot_as")
    if wanted is not None and wanted["name"] == reference:
        return wanted["id"]
    found = client.archives(ws["id"])
    kept = choose(found, key_of(found, reference)).get("snapshot")
    if kept is None:
        raise CommandError("That archive is no snapshot: see `codehub ws archives`.", ExitCode.NOT_FOUND)
    return kept["id"]


def _say(answer: "Workspace", words: str, *, json: bool) -> None:
    if json:
        print_json(answer)
        return
    out.print(words, markup=False)
