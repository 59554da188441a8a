"""What commands say: results to standard output, trouble to standard error, colour only on a terminal."""

import json
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


def complain(sentence: str) -> None:
    """Say what is wrong, and what to do about it."""
    err.print(Text.assemble(("codehub: ", "bold red"), sentence))


def say(text: str) -> None:
    """Print text with rich markup. Use ``escape`` for what people or programs made up."""
    out.print(text)


def print_json(value: Any) -> None:
    out.print(json.dumps(value, ensure_ascii=False, indent=2), markup=False)


__all__ = ["complain", "err", "escape", "out", "print_json", "say"]
