"""Commands ``codehub backup`` and ``codehub restore``: the database into one file, and back."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.markup import escape

from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.log_setup import configure_logs
from codehub.cli.options import JSON
from codehub.cli.output import err, print_json, say

if TYPE_CHECKING:
    from codehub.store.backup.file import Manifest

FILE = typer.Argument(help="The backup file.", metavar="FILE", show_default=False)
REPLACE = typer.Option(
    False, "--replace", help="Also if the database is not empty: replace all that is in it."
)
TRIAL = typer.Option(
    False,
    "--trial",
    help="Only try it: restore into a database made for it on the same server, and drop that.",
)


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command()(backup)
    app.command()(restore)


def backup(file: Path = FILE, json: bool = JSON) -> None:
    """Write people, workspaces and their history to a file. CodeHub may run meanwhile.

    Homes are not in it: they are in volumes and in the archive store. Copy the archive store after this, never before.
    The file holds hashes of passwords and the installation's secret: keep it where only you can read it.
    """
    file = file.absolute()
    if file.exists():
        raise CommandError(
            f"{file} exists already. A backup never replaces one.", exit_code=ExitCode.CONFLICT
        )
    if not file.parent.is_dir():
        raise CommandError(f"There is no directory {file.parent}.")
    asyncio.run(_backup(file, json=json))


def restore(file: Path = FILE, replace: bool = REPLACE, trial: bool = TRIAL, json: bool = JSON) -> None:
    """Make the database what it was when the backup was made. CodeHub must not run.

    All of it or nothing. Everybody signs in again.
    """
    asyncio.run(_restore(file, replace=replace, trial=trial, json=json))


async def _backup(file: Path, *, json: bool) -> None:
    from codehub.server.database import explained
    from codehub.server.processes import embedded
    from codehub.server.settings.tree import load_settings
    from codehub.store.backup import dump

    settings = load_settings()
    configure_logs(settings, level="warning")
    async with embedded.database(settings) as url, explained(url):
        manifest = await dump.dump(url, file, on_table=_tell)
    if json:
        print_json({"file": str(file), **_summary(manifest)})
    else:
        say(f"[bold]{escape(str(file))}[/] holds {_words(manifest)}. Now copy the archive store.")


async def _restore(file: Path, *, replace: bool, trial: bool, json: bool) -> None:
    from codehub.server.database import explained
    from codehub.server.processes import embedded
    from codehub.server.settings.tree import load_settings
    from codehub.store.backup import load

    settings = load_settings()
    configure_logs(settings, level="warning")
    async with embedded.database(settings) as url, explained(url):
        try:
            if trial:
                manifest = await load.try_restore(url, file, on_table=_tell)
            else:
                manifest = await load.restore(url, file, replace=replace, on_table=_tell)
        except load.DatabaseInUse as error:
            raise CommandError(str(error), exit_code=ExitCode.CONFLICT) from error
    made_at = datetime.fromisoformat(manifest.made_at).astimezone()
    if json:
        print_json({"file": str(file), "restored": not trial, **_summary(manifest)})
    elif trial:
        say(f"It restores: {_words(manifest)}, as of {made_at:%Y-%m-%d %H:%M}. The database was not touched.")
    else:
        say(f"Restored {_words(manifest)}, as of {made_at:%Y-%m-%d %H:%M}.")
        say(
            "What changed since then is told after the next start: codehub admin overview, codehub admin orphans."
        )


def _tell(table: str, rows: int) -> None:
    if err.is_terminal:
        err.print(f"  {table}: {rows:,} rows", style="dim")


def _words(manifest: "Manifest") -> str:
    people, workspaces = manifest.rows_of("users"), manifest.rows_of("workspaces")
    return f"{people} {'person' if people == 1 else 'people'} and {workspaces} workspace{'s' * (workspaces != 1)}"


def _summary(manifest: "Manifest") -> dict[str, object]:
    return {
        "version": manifest.version,
        "revision": manifest.revision,
        "installation_id": manifest.installation_id,
        "made_at": manifest.made_at,
        "rows": {each.name: each.rows for each in manifest.tables},
    }
