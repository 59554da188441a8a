"""Commands about detached processes: ``codehub ws processes``, ``process-logs`` and ``process-kill``.

They are started by ``codehub exec --detach``.
"""

from datetime import datetime

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.answers import Process
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.inside import pass_on
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import err, print_json, print_table
from codehub.cli.references import get_workspace
from codehub.cli.words import ago, clean, size

PROCESS = typer.Argument(help="Its id, of `codehub ws processes`.", metavar="PROCESS", show_default=False)


def register(workspaces: typer.Typer) -> None:
    """Add the commands to ``codehub ws``."""
    workspaces.command(name="processes")(list_processes)
    workspaces.command(name="process-logs")(show_logs)
    workspaces.command(name="process-kill")(kill)


def list_processes(workspace: str = WORKSPACE, json: bool = JSON) -> None:
    """Show detached processes of a workspace that runs: `codehub exec --detach`. Does not wake it."""
    with connect() as client:
        found = client.processes(get_workspace(client, workspace)["id"])
        now = client.now
    if json:
        print_json({"items": found})
        return
    if not found:
        err.print("No detached process. To start one: codehub exec --detach NAME -- COMMAND")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("id", "state", "started", "output"):
        table.add_column(title, no_wrap=True)
    table.add_column("command", overflow="fold")
    for each in found:
        row = (
            each["id"],
            _state(each),
            ago(each["started_at"], now=now),
            size(each["output_bytes"]),
            clean(each["command"]),
        )
        table.add_row(*map(Text, row))
    print_table(table)


def show_logs(
    workspace: str = WORKSPACE,
    process: str = PROCESS,
    follow: bool = typer.Option(False, "--follow", "-f", help="Go on until it ends, with its exit code."),
) -> None:
    """Show what a detached process has said: its latest 512 KiB."""
    with connect() as client:
        workspace_id = get_workspace(client, workspace)["id"]
        with client.process_logs(workspace_id, _checked(process), follow=follow) as events:
            code = pass_on(events)
    if code is not None and follow:
        raise typer.Exit(code)


def kill(
    workspace: str = WORKSPACE,
    process: str = PROCESS,
    signal: str = typer.Option(
        "TERM",
        "--signal",
        "-s",
        help="TERM, INT, HUP, QUIT, KILL, USR1 or USR2. Asked to end: KILL after 5 s.",
    ),
) -> None:
    """End a detached process and all it started, or send it a signal."""
    with connect() as client:
        workspace_id = get_workspace(client, workspace)["id"]
        client.kill_process(workspace_id, _checked(process), signal=signal.upper().removeprefix("SIG"))


def _checked(process: str) -> str:
    """An id, before it becomes a part of an address."""
    if len(process) != 12 or set(process) - set("0123456789abcdef"):
        raise CommandError(f"Not the id of a process: {clean(process)}", ExitCode.USAGE)
    return process


def _state(each: Process) -> str:
    if each["ended_at"] is None:
        return "running"
    if each["timed_out"]:
        return "timed out"
    took = datetime.fromisoformat(each["ended_at"]) - datetime.fromisoformat(each["started_at"])
    return f"exit {each['exit_code']} after {max(0, round(took.total_seconds()))} s"
