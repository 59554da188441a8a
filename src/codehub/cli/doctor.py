"""Command ``codehub doctor``: check every dependency and say what to do."""

import asyncio
from typing import TYPE_CHECKING

import typer
from rich.table import Table
from rich.text import Text

from codehub.cli.log_setup import configure_logs
from codehub.cli.options import JSON
from codehub.cli.output import out, print_json

if TYPE_CHECKING:
    from codehub.server.doctor.findings import Finding

STYLES = {"ok": "green", "note": "yellow", "bad": "bold red"}


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command()(doctor)


def doctor(json: bool = JSON) -> None:
    """Check every dependency and say what to do. Exit code 1 if something is bad."""
    from codehub.server.doctor.checks import examine
    from codehub.server.doctor.findings import Severity
    from codehub.server.settings.tree import load_settings

    settings = load_settings()
    configure_logs(settings, level="error")  # problems are findings, and printed once
    findings = asyncio.run(examine(settings))
    bad = [finding for finding in findings if finding.severity is Severity.BAD]
    if json:
        print_json({"ok": not bad, "findings": [finding.as_json() for finding in findings]})
    else:
        _print_table(findings)
        out.print(f"{len(bad)} of {len(findings)} need something done." if bad else "All is well.")
    raise typer.Exit(1 if bad else 0)


def _print_table(findings: list["Finding"]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    table.add_column("what", no_wrap=True)
    table.add_column("found", overflow="fold")
    table.add_column("what to do", overflow="fold")
    for finding in findings:
        mark = Text(finding.severity, STYLES[finding.severity])
        table.add_row(mark, finding.what, Text(finding.detail), Text(finding.advice))
    out.print(table, soft_wrap=False)
