"""Check that prose of the documentation wraps at 120 characters; ``--fix`` wraps it.

``python -m tools.check_wrap [--fix] [FILE…]`` looks at ``docs/`` and the pages beside it. Tables, code, headings,
HTML and lines of one unbreakable word may be longer. A paragraph or list item with a line that is too long is
wrapped as a whole; what a page says and how it renders stays the same.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

from tools.markdown import prose_lines

ROOT = Path(__file__).parents[1]
WIDTH = 120
BESIDE = ("ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md", "SECURITY.md")

_ITEM = re.compile(r"^( *)([-*+]|\d+[.)]) +(\[[ x]\] +)?")
_OTHER = re.compile(r"^ *(\||#{1,6} |<|>|\[[^\]]+\]: |!!! |---+$|\*\*\*+$)")
_UNBREAKABLE = re.compile(r"`[^`]+`|!?\[[^\]]*\]\([^)]*\)")
_STARTS_A_BLOCK = re.compile(r" (?=([-*+>|=]+|#{1,6}|\d+[.)])( |$))")
_KEPT = "\0"  # stands for a space at which a line must not end


def too_long(text: str) -> Iterator[tuple[int, int]]:
    """Number and length of each line of prose that could have been broken."""
    for number, line in prose_lines(text):
        if len(line) > WIDTH and not _OTHER.match(line) and _first_break(line) is not None:
            yield number, len(line)


def wrap(text: str) -> str:
    """The page with each paragraph or item that has a line too long wrapped anew."""
    lines = text.split("\n")
    long = {number - 1 for number, _ in too_long(text)}
    for start, end in reversed(list(_blocks(text))):
        if any(start <= number < end for number in long) and not _has_hard_breaks(lines[start:end]):
            lines[start:end] = _wrapped(lines[start:end])
    return "\n".join(lines)


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Paragraphs and list items, each with its own lines only: from the first to after the last."""
    start, last = None, -2
    for number, line in prose_lines(text):
        at = number - 1
        ends = not line.strip() or _OTHER.match(line) or _ITEM.match(line) or at != last + 1
        if start is not None and ends:
            yield start, last + 1
            start = None
        if start is None and line.strip() and not _OTHER.match(line):
            start = at
        last = at
    if start is not None:
        yield start, last + 1


def _wrapped(lines: list[str]) -> list[str]:
    item = _ITEM.match(lines[0])
    first = item[0] if item else lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    hanging = re.match(r" *", lines[1])[0] if len(lines) > 1 else ""  # type: ignore[index]
    marker = len(first) - len(item[3] or "") if item else len(first)
    after = hanging if item and len(hanging) >= 2 else " " * marker
    said = " ".join([lines[0][len(first) :], *lines[1:]])
    said = " ".join(said.split())
    said = _UNBREAKABLE.sub(lambda match: match[0].replace(" ", _KEPT), said)
    said = _STARTS_A_BLOCK.sub(_KEPT, said)
    broken = textwrap.wrap(
        said,
        WIDTH,
        initial_indent=first,
        subsequent_indent=after,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(_KEPT, " ") for line in broken]


def _first_break(line: str) -> int | None:
    item = _ITEM.match(line)
    begin = item.end() if item else len(line) - len(line.lstrip())
    kept = _UNBREAKABLE.sub(lambda match: match[0].replace(" ", _KEPT), line[begin:].rstrip())
    found = kept.find(" ")
    return None if found < 0 else begin + found


def _has_hard_breaks(lines: list[str]) -> bool:
    return any(line.endswith(("  ", "\\")) for line in lines)


def pages(root: Path) -> list[Path]:
    command = [
        "git",
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
        "--",
        "docs/*.md",
        *BESIDE,
    ]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return [root / name for name in sorted(names) if name and (root / name).is_file()]


def main(arguments: list[str]) -> int:
    fixes = "--fix" in arguments
    named = [Path(name).resolve() for name in arguments if name != "--fix"]
    failed = False
    for page in named or pages(ROOT):
        text = page.read_text(encoding="utf-8")
        if fixes and (wrapped := wrap(text)) != text:
            page.write_text(wrapped, encoding="utf-8")
            text = wrapped
        for number, length in too_long(text):
            failed = True
            sys.stderr.write(f"{page.relative_to(ROOT)}:{number}: {length} characters, more than {WIDTH}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
