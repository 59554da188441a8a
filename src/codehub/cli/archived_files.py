"""Commands ``codehub ws files``, ``ws take`` and ``ws put-back``: single files of a workspace's archives."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from time import monotonic, sleep
from typing import TYPE_CHECKING, TypeVar, cast

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.archives import choose, key_of
from codehub.cli.failures import CommandError, ExitCode
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import err, out, print_json, print_table
from codehub.cli.references import get_workspace
from codehub.cli.words import ago, clean, size

if TYPE_CHECKING:
    from datetime import datetime

    from codehub.cli.answers import FileEntry
    from codehub.cli.client import Client

FOLDER = typer.Argument("", help="A folder, from the home.", show_default=False)
PATH = typer.Argument(help="A file or folder, from the home.")
ARCHIVE = typer.Option(
    "1", "--archive", "-a", help="Its number in `codehub ws archives` (1: the newest) or its key."
)
_WAIT_SECONDS = 600.0
T = TypeVar("T")


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(name="files")(list_files)
    app.command()(take)
    app.command(name="put-back")(put_back)


def list_files(
    workspace: str = WORKSPACE, folder: str = FOLDER, archive: str = ARCHIVE, json: bool = JSON
) -> None:
    """List a folder of an archive. Wakes nothing."""
    with connect() as client:
        key = _key(client, workspace, archive)
        found = cast("list[FileEntry]", _when_read(lambda: client.look_into(key, folder, ""))["entries"])
        now = client.now
    if json:
        print_json(found)
        return
    print_table(files_table(found, now=now))


def files_table(found: "list[FileEntry]", *, now: "datetime") -> Table:
    """Build the table of a folder."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("mode", "size", "changed"):
        table.add_column(title, no_wrap=True)
    table.add_column("name", overflow="fold")
    for each in found:
        name = clean(each["name"]) + ("/" if each["type"] == "directory" else "")
        if each["target"] is not None:
            name += f" -> {clean(each['target'])}"
        length = size(each["size"]) if each["type"] == "file" else ""
        table.add_row(*map(Text, (each["mode"], length, ago(each["modified_at"], now=now), name)))
    return table


def take(
    workspace: str = WORKSPACE,
    path: str = PATH,
    file: Path | None = typer.Argument(None, help="Where to. Default: its name here.", show_default=False),
    archive: str = ARCHIVE,
) -> None:
    """Download a file of an archive, or a folder as a tar. Wakes nothing."""
    with connect() as client:
        key = _key(client, workspace, archive)
        entry = cast("FileEntry", _when_read(lambda: client.look_into(key, path, "/stat")))
        is_folder = entry["type"] == "directory"
        name = clean(PurePosixPath(path).name) or "home"
        target = file or Path(f"{name}.tar" if is_folder else name)
        if target.exists():
            raise CommandError(f"{target} exists already. Name another file.", exit_code=ExitCode.CONFLICT)
        with client.read_archived(key, "archive" if is_folder else "content", path) as pieces:
            length = _save(pieces, target)
    out.print(f"{target}: {size(length)}", markup=False)


def put_back(
    workspace: str = WORKSPACE,
    path: str = typer.Argument(help="A file of the archive, from the home."),
    to: str | None = typer.Option(None, "--to", help="Write it here instead, from the home."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace the file that is there."),
    wake: bool = typer.Option(False, "--wake", help="Start the workspace if it sleeps."),
    archive: str = ARCHIVE,
) -> None:
    """Write a file of an archive into the home of a workspace that runs."""
    with connect() as client:
        key = _key(client, workspace, archive)
        _when_read(lambda: client.put_back(key, wake=wake, path=path, target=to, overwrite=overwrite))
    out.print(f"{clean(to or path)} is back.", markup=False)


def _key(client: "Client", workspace: str, archive: str) -> str:
    found = client.archives(get_workspace(client, workspace)["id"])
    return choose(found, key_of(found, archive) if found else None)["key"]


def _when_read(ask: Callable[[], T]) -> T:
    """Ask again while the archive is read for the first time, or the workspace starts."""
    from codehub.cli.refusals import Refusal  # imports httpx, which is slow

    deadline = monotonic() + _WAIT_SECONDS
    told = False
    while True:
        try:
            return ask()
        except Refusal as refusal:
            if refusal.problem not in ("archive_indexing", "waking") or monotonic() > deadline:
                raise
            if not told:
                err.print(str(refusal), markup=False)
            told = True
            sleep(1.0)


def _save(pieces: Iterable[bytes], target: Path) -> int:
    """Write to a name beside it first: what ends in the middle is never taken for the whole."""
    partial, length = target.with_name(f"{target.name}.partial"), 0
    try:
        with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
            for piece in pieces:
                output.write(piece)
                length += len(piece)
        partial.rename(target)
    finally:
        partial.unlink(missing_ok=True)
    return length
