"""Commands ``codehub ide …``: IDEs of the local runtime on this machine. They need no server."""

import asyncio
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON
from codehub.cli.output import err, escape, print_json, print_table, say

if TYPE_CHECKING:
    from codehub.runtimes.local.ides.catalogue import Ide
    from codehub.runtimes.local.ides.installations import IdeState, Installations

app = typer.Typer(no_args_is_help=True, help="The IDEs on this machine: JupyterLab and VS Code.")


@app.command(name="list")
def list_ides(json: bool = JSON) -> None:
    """Show which IDEs are here, and what the others take."""
    from codehub.runtimes.local.ides.catalogue import CATALOGUE

    installations = _installations()
    states = [installations.state(ide) for ide in CATALOGUE.values()]
    found = _found_elsewhere()
    if json:
        print_json([_as_json(state, found) for state in states])
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("IDE", "image", "state"):
        table.add_column(title)
    for state in states:
        table.add_row(state.ide.title, state.ide.name, _words(state, found))
    print_table(table)
    if any(state.version is None and state.ide.name not in found for state in states):
        err.print(
            "Install one now: codehub ide install vscode. Otherwise its first workspace does.", markup=False
        )


@app.command()
def install(
    names: list[str] = typer.Argument(
        None, help="vscode, jupyterlab. Default: those that are installed, to their newest version."
    ),
) -> None:
    """Install an IDE for workspaces of this machine, or bring it to the version of this CodeHub.

    What is fetched is checked against CodeHub's own list of checksums. Nothing is compiled, and workspaces that run
    are left alone.
    """
    installations = _installations()
    chosen = _chosen(names or [], installations)
    if not chosen:
        say("No IDE was installed by CodeHub here. Name one: codehub ide install vscode")
    for ide in chosen:
        asyncio.run(_install(ide, installations))


async def _install(ide: "Ide", installations: "Installations") -> None:
    if (
        before := await asyncio.to_thread(installations.find, ide)
    ) is not None and before.name == ide.version:
        say(f"{ide.title} {ide.version} is installed already.")
        return
    say(
        f"Installing {ide.title} {ide.version}: fetches about {ide.fetched_mb} MB, takes {ide.disk_mb} MB of disk."
    )
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.description}"))
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task("", total=100)
        last = ""

        def on_step(percent: int, step: str) -> None:
            nonlocal last
            progress.update(task, completed=percent, description=escape(step))
            if not err.is_terminal and step != last:
                err.print(f"{percent} % {step}", markup=False)
            last = step

        await installations.install(ide, on_step)
    say(f"{ide.title} {ide.version} is installed. New workspaces can choose the image {ide.name}.")


def _chosen(names: list[str], installations: "Installations") -> "list[Ide]":
    from codehub.runtimes.local.ides.catalogue import CATALOGUE, find_ide

    if not names:
        return [ide for ide in CATALOGUE.values() if installations.find(ide) is not None]
    found = []
    for name in names:
        ide = find_ide(name)
        if ide is None:
            known = ", ".join(ide.words[0] for ide in CATALOGUE.values())
            raise CommandError(f"There is no IDE {name!r}. There are: {known}.", ExitCode.USAGE)
        found.append(ide)
    return found


def _installations() -> "Installations":
    from codehub.runtimes.local.ides.installations import Installations
    from codehub.server.settings.tree import load_settings

    return Installations(load_settings().data_dir)


def _found_elsewhere() -> frozenset[str]:
    """IDEs that were installed by somebody else: they are used as they are."""
    from codehub.runtimes.local.images import default_images

    return frozenset(default_images())


def _words(state: "IdeState", found: frozenset[str]) -> str:
    ide = state.ide
    if state.percent is not None:
        return f"being installed, {state.percent} %"
    if ide.name in found:
        return "found on this machine"
    if state.version is None:
        return f"not installed; {ide.version} fetches {ide.fetched_mb} MB and takes {ide.disk_mb} MB"
    if state.version != ide.version:
        return f"{state.version}; codehub ide install gets {ide.version}"
    return f"{state.version} installed"


def _as_json(state: "IdeState", found: frozenset[str]) -> dict[str, object]:
    return {
        "name": state.ide.name,
        "title": state.ide.title,
        "found": state.ide.name in found,
        "installed": state.version,
        "offered": state.ide.version,
        "percent": state.percent,
        "fetched_mb": state.ide.fetched_mb,
        "disk_mb": state.ide.disk_mb,
    }
