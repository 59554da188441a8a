"""Commands ``codehub ws …``: workspaces, through the API."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli import archived_files, archives, explaining, history, logs, snapshots, tags, waiting
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON, TIMEOUT, WAIT, WORKSPACE, connect
from codehub.cli.order import in_order
from codehub.cli.output import err, is_narrow, out, print_json, print_table
from codehub.cli.references import get_workspace
from codehub.cli.words import ago, clean, loss_words, next_words, status_style, status_words

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.cli.answers import Workspace
    from codehub.cli.client import Client

app = typer.Typer(help="Your workspaces.", no_args_is_help=True)
archives.register(app)
archived_files.register(app)
snapshots.register(app)
tags.register(app)

STATUSES = (
    *("running", "standby", "archived", "new", "error", "provisioning", "restoring"),
    *("starting", "stopping", "archiving", "deleting", "deleted"),
)


def _complete_status(incomplete: str) -> list[str]:
    return [status for status in STATUSES if status.startswith(incomplete)]


@app.command(name="list")
def list_workspaces(
    status: str | None = typer.Option(None, help="Only these.", autocompletion=_complete_status),
    search: str | None = typer.Option(None, "--search", "-s", help="Part of the name or description."),
    tag: str | None = typer.Option(None, "--tag", "-t", help="Only those with this tag."),
    everyone: bool = typer.Option(False, "--all", help="Everybody's. For administrators."),
    json: bool = JSON,
) -> None:
    """Show your workspaces: what is pinned, trouble, then what runs, then what was used last."""
    with connect() as client:
        found = list(
            client.list_workspaces(
                owner="all" if everyone else None, status=status, q=search or None, tag=tag
            )
        )
        now = client.now
    if json:
        print_json(found)
        return
    if not found:
        err.print("No workspace matches." if status or search or tag else "None yet: codehub ws create NAME")
        return
    print_table(workspaces_table(found, everyone=everyone, narrow=is_narrow(), now=now))


def workspaces_table(found: list["Workspace"], *, everyone: bool, narrow: bool, now: "datetime") -> Table:
    """Build the table. A narrow one leaves out what can be done without.

    A person's own are known by name; everybody's only by id.
    """
    columns: dict[str, Callable[[Workspace], str]] = {}
    if not narrow or not everyone:
        columns["next"] = lambda ws: next_words(ws, now=now)
        columns["last used"] = lambda ws: ago(ws["activity"]["last_seen_at"] or ws["last_access_at"], now=now)
    if everyone and not narrow:
        columns["owner"] = lambda ws: ws["owner_id"]
    if everyone or not narrow:
        columns["id"] = lambda ws: ws["id"]
    if not narrow:  # always, and last: who reads a pipe by position must not lose the place
        columns["tags"] = lambda ws: clean(", ".join(ws.get("tags", [])))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("name", overflow="fold")
    table.add_column("status", overflow="fold")
    for title in columns:
        table.add_column(title, overflow="fold", no_wrap=title not in ("next", "tags"))
    for ws in in_order(found):
        status = Text(status_words(ws), status_style(ws["status"]))
        table.add_row(Text(clean(ws["name"])), status, *(Text(cell(ws)) for cell in columns.values()))
    return table


@app.command()
def create(
    name: str = typer.Argument(help="1 to 64 characters.", show_default=False),
    image: str | None = typer.Option(None, help="What it runs. Default: the server's choice."),
    description: str = typer.Option("", help="For yourself, later."),
    sleep_after: int | None = typer.Option(
        None, min=0, metavar="SECONDS", help="Idle time before sleep; 0: never."
    ),
    archive_after: int | None = typer.Option(
        None, min=0, metavar="SECONDS", help="Sleep before archiving; 0: never."
    ),
    start: bool = typer.Option(False, "--start", help="Start it at once."),
    queue: bool = typer.Option(False, "--queue", help="With --start: at a limit, wait in line for a place."),
    wait: bool = typer.Option(False, "--wait", "-w", help="Start it and show progress until it runs."),
    timeout: float | None = TIMEOUT,
    json: bool = JSON,
) -> None:
    """Make a workspace."""
    new: dict[str, Any] = {"name": name, "description": description, "start": start or wait}
    if queue:
        new["queue"] = True
    chosen = {"image_ref": image, "standby_ttl_seconds": sleep_after, "archive_ttl_seconds": archive_after}
    new |= {key: value for key, value in chosen.items() if value is not None}
    with connect() as client:
        made = client.create_workspace(new)
        if wait:
            made = waiting.until_settled(client, made, quiet=json, timeout=timeout)
            waiting.expect(made, "running")
        now = client.now
    note = "made, and starts" if start and not wait else None
    if made.get("queued_at"):
        note = f"made, {next_words(made, now=now)}"
    _report(made, json=json, note=note)
    if made.get("node_local_home") and not json:
        err.print(
            "Its home is on one machine of the cluster: what is not archived is lost with that machine."
        )


@app.command()
def start(
    workspace: str = WORKSPACE,
    queue: bool = typer.Option(False, "--queue", help="At a limit, wait in line for a place."),
    instead_of: str | None = typer.Option(
        None, metavar="OTHER", help="Put this one to sleep and take its place.", show_default=False
    ),
    wait: bool = WAIT,
    timeout: float | None = TIMEOUT,
    json: bool = JSON,
) -> None:
    """Start it: an archived one comes back with every file."""
    from codehub.cli.client import WorkspaceAction

    def ask(client: "Client", ws: "Workspace") -> "Workspace":
        body: dict[str, Any] = {"queue": True} if queue else {}
        if instead_of is not None:
            body["instead_of"] = get_workspace(client, instead_of)["id"]
        return client.act(ws["id"], WorkspaceAction.START, body or None)

    _act(
        workspace,
        ask,
        expected=("running",) if wait else (),
        timeout=timeout,
        json=json,
    )


@app.command()
def stop(
    workspace: str = WORKSPACE, wait: bool = WAIT, timeout: float | None = TIMEOUT, json: bool = JSON
) -> None:
    """Put it to sleep, or take it out of the line. Its files stay where they are."""
    from codehub.cli.client import WorkspaceAction

    _act(
        workspace,
        lambda client, ws: client.act(ws["id"], WorkspaceAction.STOP),
        expected=("standby",) if wait else (),
        timeout=timeout,
        json=json,
    )


@app.command()
def archive(
    workspace: str = WORKSPACE, wait: bool = WAIT, timeout: float | None = TIMEOUT, json: bool = JSON
) -> None:
    """Pack its files into the archive. Starting or opening it brings them back."""
    from codehub.cli.client import WorkspaceAction

    _act(
        workspace,
        lambda client, ws: client.act(ws["id"], WorkspaceAction.ARCHIVE),
        expected=("archived", "new") if wait else (),
        timeout=timeout,
        json=json,
    )


@app.command()
def awake(
    workspace: str = WORKSPACE,
    hours: float = typer.Option(4.0, min=0, max=24, help="For how long; 0 takes it back."),
    json: bool = JSON,
) -> None:
    """Keep it awake for some hours, used or not. It is not started by this."""
    _act(
        workspace,
        lambda client, ws: client.keep_awake(ws["id"], hours=hours),
        expected=(),
        timeout=None,
        json=json,
    )


@app.command()
def recover(
    workspace: str = WORKSPACE, wait: bool = WAIT, timeout: float | None = TIMEOUT, json: bool = JSON
) -> None:
    """Lift an error, so that CodeHub tries again.

    Owners: an archiving that failed; administrators: any.
    """
    from codehub.cli.client import WorkspaceAction

    _act(
        workspace,
        lambda client, ws: client.act(ws["id"], WorkspaceAction.RECOVER),
        expected=("running", "standby", "archived", "new") if wait else (),
        timeout=timeout,
        json=json,
    )


@app.command(name="return-to-archive")
def return_to_archive(
    workspace: str = WORKSPACE,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    wait: bool = WAIT,
    timeout: float | None = TIMEOUT,
    json: bool = JSON,
) -> None:
    """Give its home on a lost node up and go on from its last archive.

    What was written since is lost.
    """

    def give_up(client: "Client", ws: "Workspace") -> "Workspace":
        if ws["archive_key"] is None:
            raise CommandError(f"{clean(ws['name'])} was never archived: there is nothing to go back to.")
        if not yes:
            _confirm(ws, loss_words(ws, now=client.now), "Nothing was given up.")
        return client.return_to_archive(ws["id"], archive_key=ws["archive_key"])

    expected = ("running", "standby", "archived") if wait else ()
    _act(workspace, give_up, expected=expected, timeout=timeout, json=json)


@app.command()
def rm(
    workspace: str = WORKSPACE,
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    wait: bool = WAIT,
    timeout: float | None = TIMEOUT,
    json: bool = JSON,
) -> None:
    """Delete it for good, home directory and all.

    Its archives follow some hours later.
    """

    def delete(client: "Client", ws: "Workspace") -> "Workspace":
        if not yes:
            _confirm(ws, _DELETED, "Nothing was deleted.")
        return client.delete_workspace(ws["id"])

    _act(workspace, delete, expected=("deleted",) if wait else (), timeout=timeout, json=json)


@app.command(name="open")
def open_(
    workspace: str = WORKSPACE,
    print_only: bool = typer.Option(False, "--print", help="Only print the address."),
    json: bool = JSON,
) -> None:
    """Open it in the browser. An address always works: it wakes what sleeps."""
    with connect() as client:
        ws = get_workspace(client, workspace)
    if json:
        print_json({"id": ws["id"], "name": ws["name"], "url": ws["url"]})
        return
    out.print(clean(ws["url"]), markup=False, emoji=False)
    if not print_only:
        import webbrowser

        if not webbrowser.open(ws["url"]):
            raise CommandError("No browser could be opened here. The address above works in any.")


@app.command()
def watch(workspace: str = WORKSPACE, timeout: float | None = TIMEOUT, json: bool = JSON) -> None:
    """Follow it until it comes to rest. With --json one line per event."""
    with connect() as client:
        ws = waiting.watch(client, get_workspace(client, workspace), json=json, timeout=timeout)
    if not json:
        _report(ws, json=False)
    waiting.expect_no_error(ws)


app.command(name="logs")(logs.show)
app.command(name="history")(history.show)
app.command(name="explain")(explaining.explain)


def _act(
    reference: str,
    act: Callable[["Client", "Workspace"], "Workspace"],
    *,
    expected: tuple[str, ...],
    timeout: float | None,
    json: bool,
) -> None:
    """Find a workspace, act on it, and wait for one of the ``expected`` statuses, if any."""
    with connect() as client:
        ws = act(client, get_workspace(client, reference))
        if expected:
            ws = waiting.until_settled(client, ws, quiet=json, timeout=timeout)
            waiting.expect(ws, *expected)
        now = client.now
    _report(ws, json=json, note=None if expected else next_words(ws, now=now))


def _report(ws: "Workspace", *, json: bool, note: str | None = None) -> None:
    if json:
        print_json(ws)
        return
    line = Text.assemble((clean(ws["name"]), "bold"), " is ", (ws["status"], status_style(ws["status"])))
    if note:
        line.append(f" ({note})")
    line.append(".")
    if ws["status"] == "running" and not note:
        line.append(f" {clean(ws['url'])}")
    out.print(line)


_DELETED = "Its home directory goes at once, its archives some hours later. There is no way back."


def _confirm(ws: "Workspace", what: str, otherwise: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError("Nobody is there to confirm it. If you are sure, add --yes.", ExitCode.USAGE)
    err.print(what)
    if typer.prompt(f"Type {clean(ws['name'])} to confirm", err=True) != ws["name"]:
        raise CommandError(f"That is not its name. {otherwise}")
