"""Commands ``codehub ws ports`` and ``codehub port-forward``: what listens in a workspace, and how to reach it."""

import errno
import re
import socket

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli import shares
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import err, print_json, print_table
from codehub.cli.port_calls import get_ports, get_shares
from codehub.cli.references import get_workspace
from codehub.cli.ssh import become_ssh, prepare
from codehub.cli.words import clean

_FORWARD = re.compile(r"([1-9][0-9]{0,4})(?::([1-9][0-9]{0,4}))?")
_HIGHEST = 65535


def register(app: typer.Typer, workspaces: typer.Typer) -> None:
    """Add the commands to ``app`` and to ``codehub ws``."""
    app.command(name="port-forward")(port_forward)
    workspaces.command(name="ports")(list_ports)
    shares.register(workspaces)


def list_ports(workspace: str = WORKSPACE, json: bool = JSON) -> None:
    """Show what listens in a workspace that runs. Does not wake it."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        found = get_ports(client, ws["id"])
        shared = {each["port"]: each for each in get_shares(client, ws["id"])["shares"]}
    if json:
        print_json(found)
        return
    if not found["ports"]:
        err.print("Nothing listens there.")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("port", "process", "bound to", "open to"):
        table.add_column(title, no_wrap=True)
    table.add_column("reached by", overflow="fold")
    for each in found["ports"]:
        process = clean(each["process"] or "?")
        row = (
            str(each["port"]),
            f"{process} (the IDE)" if each["is_ide"] else process,
            ", ".join(map(clean, each["addresses"])),
            shares.openness(shared.get(each["port"])),
            each["url"],
        )
        table.add_row(*map(Text, row))
    print_table(table)


def port_forward(
    workspace: str = WORKSPACE,
    ports: list[str] = typer.Argument(
        help="PORT, or LOCAL:PORT if it shall be another one here.",
        metavar="[LOCAL:]PORT...",
        show_default=False,
    ),
    wake: bool = typer.Option(False, "--wake", help="Wake it even if it was put to sleep a moment ago."),
) -> None:
    """Reach ports of a workspace at localhost, until Ctrl-C. Wakes it, and keeps it awake, as codehub ssh does."""
    wanted = [_parse(each) for each in ports]
    for local, remote in wanted:
        _require_free(local, remote, workspace)
    ws = prepare(workspace)
    options = ["-N", "-T", "-o", "ExitOnForwardFailure=yes"]
    for local, remote in wanted:
        options += ["-L", f"localhost:{local}:localhost:{remote}"]
        err.print(f"localhost:{local} is port {remote} of {clean(ws['name'])}, until Ctrl-C.", markup=False)
    become_ssh(ws, options, [], flags=["--wake"] if wake else [])


def _parse(text: str) -> tuple[int, int]:
    """The port here, and the one there."""
    found = _FORWARD.fullmatch(text)
    if found is None:
        raise CommandError(f"Not a port, or LOCAL:PORT: {clean(text)}", ExitCode.USAGE)
    local, remote = int(found[1]), int(found[2] or found[1])
    if max(local, remote) > _HIGHEST:
        raise CommandError(f"Ports end at {_HIGHEST}: {text}", ExitCode.USAGE)
    return local, remote


def _require_free(local: int, remote: int, workspace: str) -> None:
    """Say it before anything is woken. What takes the port after this is refused by ssh itself."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", local))
        except OSError as error:
            if error.errno == errno.EACCES:
                why = f"Port {local} is only for administrators of this machine."
            else:
                why = f"Port {local} is in use on this machine."
            other = local + 10_000 if local + 10_000 <= _HIGHEST else 8080
            hint = f"Take another one here: codehub port-forward {workspace} {other}:{remote}"
            raise CommandError(f"{why} {hint}", ExitCode.CONFLICT) from error
