"""What commands say: results to standard output, trouble to standard error, colour only on a terminal."""

import json
import sys
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)

UNFOLDED = 2000


def complain(sentence: str) -> None:
    """Say what is wrong, and what to do about it."""
    err.print(Text.assemble(("codehub: ", "bold red"), sentence))


def say(text: str) -> None:
    """Print text with rich markup. Use ``escape`` for what people or programs made up."""
    out.print(text)


def print_table(table: Table) -> None:
    """Fitted to a terminal; into a file or a pipe one line per row, however long."""
    if out.is_terminal:
        out.print(table, soft_wrap=False)
        return
    unfolded = Console(width=UNFOLDED, highlight=False, color_system=None)
    with unfolded.capture() as captured:
        unfolded.print(table)
    out.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def print_json(value: Any) -> None:
    _write_json(value, indent=2)


def print_json_line(value: Any) -> None:
    """For a stream of objects: one line each, and there at once."""
    _write_json(value, indent=None)
    sys.stdout.flush()


def _write_json(value: Any, *, indent: int | None) -> None:
    # Not through the console, which takes ":smile:" in a name for an emoji.
    readable = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(json.dumps(value, ensure_ascii=not readable, indent=indent) + "\n")


__all__ = ["complain", "err", "escape", "out", "print_json", "print_json_line", "print_table", "say"]
