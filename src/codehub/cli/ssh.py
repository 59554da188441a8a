"""Commands ``codehub ssh`` and ``codehub config-ssh``: SSH into workspaces, with the system's own client.

``codehub ssh --stdio`` is the ``ProxyCommand`` behind both: it carries the connection to CodeHub, which wakes the
workspace. Keys of hosts come from CodeHub too, so no client ever asks whether to trust one.
"""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import typer

from codehub.cli import ssh_config, ssh_files
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import WORKSPACE, connect
from codehub.cli.output import err, out
from codehub.cli.references import get_workspace

if TYPE_CHECKING:
    from codehub.cli.answers import Workspace

SUFFIX = ".codehub"
"""What ``ssh`` calls a workspace: its name, or its id, and this."""

_WORDS_OF_A_COMMAND = {"ignore_unknown_options": True, "allow_interspersed_args": False}


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(name="ssh", context_settings=_WORDS_OF_A_COMMAND)(ssh)
    app.command(name="config-ssh")(config_ssh)


def ssh(
    workspace: str = WORKSPACE,
    command: list[str] = typer.Argument(None, help="What to run there. Default: a shell."),
    wake: bool = typer.Option(False, "--wake", help="Wake it even if it was put to sleep a moment ago."),
    keep: bool = typer.Option(False, "--keep", help="What you start there goes on after the connection."),
    stdio: bool = typer.Option(False, "--stdio", help="Carry the connection of an ssh: for ProxyCommand."),
) -> None:
    """Open a shell in a workspace, or run a command there. Wakes it."""
    ws = prepare(workspace)
    if stdio:
        from codehub.cli.ssh_tunnel import carry

        carry(ws["id"], wake=wake, keep=keep)
        return
    become_ssh(ws, [], command or [], flags=[*(["--wake"] if wake else []), *(["--keep"] if keep else [])])


def prepare(workspace: str) -> "Workspace":
    """Find the workspace, and write its key down for ssh."""
    reference = workspace.removesuffix(SUFFIX)
    with connect() as client:
        ws = get_workspace(client, reference)
        key = client.ssh_host_key(ws["id"])
    ssh_files.remember_host([f"{ws['id']}{SUFFIX}", f"{reference}{SUFFIX}"], key)
    return ws


def become_ssh(
    ws: "Workspace", options: Sequence[str], command: Sequence[str], *, flags: Sequence[str]
) -> NoReturn:
    """Replace this process by ssh to a workspace. ``flags``: of ``codehub ssh --stdio``, which carries it."""
    program = shutil.which("ssh")
    if program is None:
        raise CommandError("There is no ssh here. Install OpenSSH's client (Debian: openssh-client).")
    every = ssh_config.options(_proxy_command([*flags, ws["id"]]), ssh_files.known_hosts())
    arguments = [part for name, value in every for part in ("-o", f"{name}={value}")]
    sys.stdout.flush()
    os.execv(program, ["ssh", *arguments, *options, f"{ws['id']}{SUFFIX}", *command])


def config_ssh(
    remove: bool = typer.Option(False, "--remove", help="Take the lines out again."),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    path: str = typer.Option("~/.ssh/config", "--file", help="OpenSSH's configuration."),
) -> None:
    """Let ssh, scp, rsync, git and editors reach workspaces as NAME.codehub."""
    file = os.path.realpath(os.path.expanduser(path))
    before = ssh_config.read(file)
    block = "" if remove else ssh_config.block(SUFFIX, _proxy_command(["%n"]), ssh_files.known_hosts())
    after = ssh_config.replace_block(before, block)
    if after == before:
        err.print("There is nothing to change.")
        return
    if not yes:
        if not sys.stdin.isatty():
            raise CommandError("Nobody is there to confirm it. If you are sure, add --yes.", ExitCode.USAGE)
        err.print(
            f"{file} loses CodeHub's lines." if remove else f"{file} gets these lines:\n\n{block}",
            markup=False,
        )
        if not typer.confirm("Go on?", err=True):
            raise CommandError("Nothing was changed.")
    ssh_config.write(file, after)
    out.print("Taken out." if remove else "Written. Try: ssh NAME.codehub", markup=False)


def _proxy_command(arguments: list[str]) -> str:
    """The command line for ``ProxyCommand``: this very program, wherever it is installed."""
    program = shutil.which(sys.argv[0])
    words = [os.path.abspath(program)] if program else [sys.executable, "-m", "codehub.cli.main"]
    return shlex.join([*(word.replace("%", "%%") for word in words), "ssh", "--stdio", *arguments])
