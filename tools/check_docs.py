"""Check the documentation: links lead somewhere, pages are in the site's navigation, decisions have a status.

``python -m tools.check_docs`` prints what is wrong, one line each, and ends with 1 if anything is. It looks
at every Markdown file of the repository, and at paths such as ``docs/operate/install.md`` in comments and
messages.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.markdown import anchors, links

ROOT = Path(__file__).parents[1]
DECISIONS = "docs/understand/decisions/"
_MENTION = re.compile(r"(?<![\w/.-])docs/[\w/.-]+\.md")


def problems(root: Path) -> Iterator[str]:
    names = _files(root)
    pages = [name for name in names if name.endswith(".md")]
    for name in pages:
        yield from _broken_links(root, name)
    for name in names:
        yield from _broken_mentions(root, name)
    yield from _missing_in_navigation(root, pages)
    yield from _bad_decisions(root, pages)


def _files(root: Path) -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    return sorted(name for name in output.split("\0") if name and (root / name).is_file())


def _broken_links(root: Path, name: str) -> Iterator[str]:
    for link in links((root / name).read_text(encoding="utf-8")):
        target = os.path.normpath(os.path.join(os.path.dirname(name), link.path)) if link.path else name
        where = f"{name}:{link.line}"
        if target.startswith("..") or not (root / target).exists():
            yield f"{where}: there is no {target}"
        elif link.anchor and target.endswith(".md") and link.anchor not in _anchors(root / target):
            yield f"{where}: {target} has no heading #{link.anchor}"


def _anchors(page: Path) -> set[str]:
    return anchors(page.read_text(encoding="utf-8"))


def _broken_mentions(root: Path, name: str) -> Iterator[str]:
    if not name.endswith((".py", ".yaml", ".yml", ".toml", ".c", "Dockerfile", "Makefile")):
        return
    for number, line in enumerate((root / name).read_text(encoding="utf-8").split("\n"), start=1):
        for mention in _MENTION.findall(line):
            if not (root / mention).exists():
                yield f"{name}:{number}: there is no {mention}"


def _missing_in_navigation(root: Path, pages: list[str]) -> Iterator[str]:
    navigation = (root / "mkdocs.yml").read_text(encoding="utf-8")
    for name in pages:
        if not name.startswith("docs/") or name.startswith(DECISIONS):  # decisions list themselves
            continue
        if name.removeprefix("docs/") not in navigation:
            yield f"{name}: not in the navigation of mkdocs.yml"


def _bad_decisions(root: Path, pages: list[str]) -> Iterator[str]:
    texts = {name: (root / name).read_text(encoding="utf-8") for name in pages if name.startswith(DECISIONS)}
    for name, page in texts.items():
        if name.endswith("README.md"):
            continue
        if not any(Path(name).name in text for other, text in texts.items() if other != name):
            yield f"{name}: neither in the table of {DECISIONS}README.md nor linked from another decision"
        for word in ("Status", "Date", "Context", "Decision", "Alternatives", "Consequences", "Enforced by"):
            if word.lower() not in page.lower():
                yield f"{name}: says nothing under '{word}'"


def main() -> int:
    found = list(problems(ROOT))
    for line in found:
        sys.stderr.write(line + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
