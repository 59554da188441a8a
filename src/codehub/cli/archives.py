"""Commands ``codehub ws archives``, ``ws download`` and ``ws restore``: a workspace's archives."""

import hashlib
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import err, out, print_json, print_table
from codehub.cli.references import get_workspace
from codehub.cli.words import ago, clean, parse_time, size

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.cli.answers import ArchiveGeneration, Workspace

FILE = typer.Argument(None, help="Where to. Default: NAME-DATE.tar.zst here.", show_default=False)
GENERATION = typer.Argument(
    None, help="Its number in `codehub ws archives` (1: the newest) or its key.", show_default=False
)
ARCHIVE = typer.Option(None, "--archive", help="Its key, of `codehub ws archives`. Default: the newest.")


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(name="archives")(list_archives)
    app.command()(download)
    app.command()(restore)


def list_archives(workspace: str = WORKSPACE, json: bool = JSON) -> None:
    """Show a workspace's archives, newest first."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        found = client.archives(ws["id"])
        now = client.now
    if json:
        print_json(found)
        return
    if not found:
        err.print("None yet: an archive is made when it has slept for long, or by codehub ws archive.")
        return
    print_table(archives_table(found, current=ws["archive_key"], now=now))


def archives_table(found: list["ArchiveGeneration"], *, current: str | None, now: "datetime") -> Table:
    """Build the table of archives."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("", "made", "size", "files", ""):
        table.add_column(title, no_wrap=True)
    table.add_column("key", overflow="fold")
    for number, each in enumerate(found, 1):
        row = (
            str(number),
            ago(each["created_at"], now=now),
            size(each["bytes"]),
            f"{each['files']:,}",
            _notes(each, current),
            each["key"],
        )
        table.add_row(*map(Text, row))
    return table


def restore(
    workspace: str = WORKSPACE,
    generation: str | None = GENERATION,
    start: bool = typer.Option(
        False, "--start", help="Start it afterwards. Else it comes back as it is wanted."
    ),
    cancel: bool = typer.Option(
        False, "--cancel", help="Stay with the present home, while the return waits."
    ),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask."),
    json: bool = JSON,
) -> None:
    """Return a home to an earlier archive. The present files are archived first, so that you can come back."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        if cancel:
            answer = client.cancel_restore(ws["id"])
        else:
            if generation is None:
                raise CommandError("Which one? See `codehub ws archives`.", ExitCode.USAGE)
            found = client.archives(ws["id"])
            chosen = choose(found, key_of(found, generation))
            if not yes:
                _confirm_return(ws, ago(chosen["created_at"], now=client.now))
            answer = client.restore(ws["id"], archive_key=chosen["key"], start=start)
        now = client.now
    if json:
        print_json(answer)
        return
    name, target = clean(ws["name"]), answer["restore_from"]
    if target is None:
        out.print(f"{name} stays with its present home.", markup=False)
    else:
        made = ago(target["created_at"], now=now)
        out.print(
            f"{name} will return to the archive made {made}. Its present files are archived first.",
            markup=False,
        )


def key_of(found: "list[ArchiveGeneration]", generation: str) -> str:
    """The key of a number in the list (1 is the newest) or of a snapshot's name, or the key as it is."""
    if generation.isdecimal() and 1 <= int(generation) <= len(found):
        return found[int(generation) - 1]["key"]
    named = [each["key"] for each in found if (kept := each.get("snapshot")) and kept["name"] == generation]
    return named[0] if len(named) == 1 else generation


def _confirm_return(ws: "Workspace", made: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError("Nobody is there to confirm it. If you are sure, add --yes.", ExitCode.USAGE)
    err.print(
        "Its present files are archived first, so that you can come back. If it runs, it is stopped for that."
    )
    if not typer.confirm(f"Return {clean(ws['name'])} to the archive made {made}?", err=True):
        raise CommandError("Nothing was changed.")


def _notes(archive: "ArchiveGeneration", current: str | None) -> str:
    notes = {
        "current": archive["key"] == current,
        "to be restored": archive.get("chosen", False),
        "damaged": archive.get("damaged", False),
        "removed soon": archive.get("expiring", False),
    }
    kept = archive.get("snapshot")
    named = [f'"{clean(kept["name"])}"'] if kept else []
    return ", ".join([*named, *(note for note, applies in notes.items() if applies)])


def download(
    workspace: str = WORKSPACE, file: Path | None = FILE, archive: str | None = ARCHIVE, json: bool = JSON
) -> None:
    """Download an archive of a home: tar, packed with zstd. Wakes nothing.

    To look inside: tar --zstd -tf FILE. The file appears under its name when every byte of it was checked.
    """
    with connect() as client:
        ws = get_workspace(client, workspace)
        chosen = choose(client.archives(ws["id"]), archive)
        target = file or Path(_file_name(ws, chosen))
        if target.exists():
            raise CommandError(f"{target} exists already. Name another file.", exit_code=ExitCode.CONFLICT)
        with client.download(chosen["key"]) as pieces:
            _save(pieces, target, chosen)
    if json:
        print_json({**chosen, "file": str(target)})
        return
    out.print(f"{target}: {size(chosen['bytes'])}, {chosen['files']:,} files", markup=False)


def choose(found: "list[ArchiveGeneration]", key: str | None) -> "ArchiveGeneration":
    if key is None and found:
        return found[0]
    for each in found:
        if each["key"] == key:
            return each
    raise CommandError(
        "It has no archive yet." if key is None else "It has no such archive: see `codehub ws archives`.",
        exit_code=ExitCode.NOT_FOUND,
    )


def _save(pieces: Iterable[bytes], target: Path, archive: "ArchiveGeneration") -> None:
    # Imported here: no other command pays for it.
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    partial = target.with_name(f"{target.name}.partial")
    digest = hashlib.sha256()
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    try:
        with (
            open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output,
            Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress,
        ):
            task = progress.add_task("", total=archive["bytes"])
            for piece in pieces:
                output.write(piece)
                digest.update(piece)
                progress.update(task, advance=len(piece))
        if digest.hexdigest() != archive["sha256"]:
            raise CommandError(
                "What arrived is not what was archived. Try again; if it stays so, tell your operator."
            )
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)


def _file_name(ws: "Workspace", archive: "ArchiveGeneration") -> str:
    plain = re.sub(r"[^\w.-]+", "_", clean(ws["name"])).strip("._") or "home"
    return f"{plain}-{parse_time(archive['created_at']):%Y%m%d-%H%M}.tar.zst"
