"""Command ``codehub ws history``: what happened to a workspace, as people tell it or every step."""

from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.chapters import chapter_words, chapters
from codehub.cli.failures import CommandError
from codehub.cli.options import JSON, WORKSPACE, connect
from codehub.cli.output import print_json, print_table
from codehub.cli.references import get_workspace
from codehub.cli.timeline import entry_words, is_significant
from codehub.cli.words import parse_time

if TYPE_CHECKING:
    from codehub.cli.answers import HistoryEntry
    from codehub.cli.client import Client

STEPS = typer.Option(False, "--steps", help="Every step of CodeHub, too.")
LIMIT = typer.Option(200, "--limit", min=1, max=200, help="So many entries of the history are read.")


def show(workspace: str = WORKSPACE, steps: bool = STEPS, limit: int = LIMIT, json: bool = JSON) -> None:
    """Tell what happened to it, newest first."""
    with connect() as client:
        ws = get_workspace(client, workspace)
        entries = client.history(ws["id"], limit=limit)
        sizes = {} if steps or json else sizes_of(client, ws["id"])
    if json:
        print_json([{**entry, "words": entry_words(entry)} for entry in entries])
        return
    print_lines(step_lines(entries) if steps else chapter_lines(entries, sizes))


def sizes_of(client: "Client", workspace_id: str) -> dict[str, int]:
    """Return the bytes of each archive that is kept. Empty: the archive store does not answer."""
    try:
        return {each["key"]: each["bytes"] for each in client.archives(workspace_id)}
    except CommandError:
        return {}  # the rest can be told all the same


def chapter_lines(entries: "list[HistoryEntry]", sizes: dict[str, int]) -> list[tuple[str, str]]:
    """Return moments and what happened, in people's words."""
    return [(told.first["at"], chapter_words(told, sizes=sizes)) for told in chapters(entries)]


def step_lines(entries: "list[HistoryEntry]") -> list[tuple[str, str]]:
    """Return moments and what happened, step by step."""
    return [(entry["at"], entry_words(entry)) for entry in entries if is_significant(entry)]


def print_lines(lines: list[tuple[str, str]]) -> None:
    """Print moments in local time, and words that wrap beside them."""
    print_table(lines_table(lines))


def lines_table(lines: list[tuple[str, str]]) -> Table:
    """Build the table of moments and words."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for at, words in lines:
        table.add_row(f"{parse_time(at).astimezone():%Y-%m-%d %H:%M}", Text(words))
    return table
