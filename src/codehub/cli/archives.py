"""Commands ``codehub ws archives`` and ``codehub ws download``: a workspace's archives, as files."""

import hashlib
import os
import re
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
ARCHIVE = typer.Option(None, "--archive", help="Its key, of `codehub ws archives`. Default: the newest.")


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(name="archives")(list_archives)
    app.command()(download)


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
    for title in ("made", "size", "files", ""):
        table.add_column(title, no_wrap=True)
    table.add_column("key", overflow="fold")
    for each in found:
        row = (
            ago(each["created_at"], now=now),
            size(each["bytes"]),
            f"{each['files']:,}",
            "current" if each["key"] == current else "",
            each["key"],
        )
        table.add_row(*map(Text, row))
    return table


def download(
    workspace: str = WORKSPACE, file: Path | None = FILE, archive: str | None = ARCHIVE, json: bool = JSON
) -> None:
    """Download an archive of a home: tar, packed with zstd. Wakes nothing.

    To look inside: tar --zstd -tf FILE. The file appears under its name when every byte of it was checked.
    """
    with connect() as client:
        ws = get_workspace(client, workspace)
        chosen = _choose(client.archives(ws["id"]), archive)
        target = file or Path(_file_name(ws, chosen))
        if target.exists():
            raise CommandError(f"{target} exists already. Name another file.", exit_code=ExitCode.CONFLICT)
        with client.download(chosen["key"]) as pieces:
            _save(pieces, target, chosen)
    if json:
        print_json({**chosen, "file": str(target)})
        return
    out.print(f"{target}: {size(chosen['bytes'])}, {chosen['files']:,} files", markup=False)


def _choose(found: "list[ArchiveGeneration]", key: str | None) -> "ArchiveGeneration":
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
