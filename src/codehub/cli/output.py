"""Print results to standard output, errors to standard error.

In colour on terminals only.
"""

import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

UNFOLDED_WIDTH = 2000


def complain(sentence: str) -> None:
    """Print an error message to standard error."""
    err.print(Text.assemble(("codehub: ", "bold red"), sentence))


def say(text: str) -> None:
    """Print text with rich markup.

    ``escape`` everything that people or programs wrote.
    """
    out.print(text)


def is_narrow() -> bool:
    """Whether a table with ids would not fit: a terminal of less than 120 columns. A pipe is never narrow."""
    return out.is_terminal and out.width < 120


def print_table(table: Table) -> None:
    """Print a table: fitted to a terminal; into a file or pipe one line per row."""
    if out.is_terminal:
        out.print(table, soft_wrap=False)
        return
    unfolded = Console(width=UNFOLDED_WIDTH, highlight=False, color_system=None)
    with unfolded.capture() as captured:
        unfolded.print(table)
    out.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def print_json(value: Any) -> None:
    """Print one JSON value, indented."""
    _write_json(value, indent=2)


def print_json_line(value: Any) -> None:
    """Print one JSON value on one line, and flush: for streams of objects."""
    _write_json(value, indent=None)
    sys.stdout.flush()


def _write_json(value: Any, *, indent: int | None) -> None:
    # Not through the console, which would replace ":smile:" in a name by an emoji.
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json.dumps(value, ensure_ascii=not readable, indent=indent) + "\n")


__all__ = [
    "complain",
    "err",
    "escape",
    "is_narrow",
    "out",
    "print_json",
    "print_json_line",
    "print_table",
    "say",
]
