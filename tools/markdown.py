"""Find links and headings in Markdown as GitHub reads them; used by the link check and by the site.

Code is not searched: a link inside a fence or between backticks is an example.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_INLINE_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
_LINK = re.compile(
    r"(?P<bang>!?)\[(?P<label>(?:`[^`]*`|\\.|[^\]\\`])*)\]\((?P<target>[^)\s]+)(?P<title>\s+\"[^\"]*\")?\)"
)
_HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
_EXTERNAL = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@dataclass(frozen=True)
class Link:
    label: str
    path: str  # empty: a heading of the same page
    anchor: str
    line: int


def links(text: str) -> Iterator[Link]:
    """Every link to something in the repository; addresses elsewhere are left out."""
    for number, line in _prose(text):
        for match in _LINK.finditer(line):
            if _is_code(line, match.start()) or _EXTERNAL.match(match["target"]):
                continue
            path, _, anchor = match["target"].partition("#")
            yield Link(match["label"], path, anchor, number)


def rewrite_links(text: str, replace: Callable[[Link], str | None]) -> str:
    """The text with each link replaced by what `replace` returns; None leaves it as it is."""
    lines = text.split("\n")
    for number, line in _prose(text):

        def substitute(match: re.Match[str], line: str = line, number: int = number) -> str:
            if match["bang"] or _is_code(line, match.start()) or _EXTERNAL.match(match["target"]):
                return match[0]
            path, _, anchor = match["target"].partition("#")
            new = replace(Link(match["label"], path, anchor, number))
            return match[0] if new is None else new

        lines[number - 1] = _LINK.sub(substitute, line)
    return "\n".join(lines)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings: lower case, no punctuation, hyphens for spaces, doubles numbered."""
    found: dict[str, int] = {}
    result: set[str] = set()
    for _, line in _prose(text):
        if (match := _HEADING.match(line)) is None:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[2]).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        result.add(f"{slug}-{count}" if count else slug)
    return result


def _prose(text: str) -> Iterator[tuple[int, str]]:
    fence = ""
    for number, line in enumerate(text.split("\n"), start=1):
        match = _FENCE.match(line)
        if fence:
            if match and match[1].startswith(fence):
                fence = ""
        elif match:
            fence = match[1][:3]
        else:
            yield number, line


def _is_code(line: str, position: int) -> bool:
    return any(match.start() < position < match.end() for match in _INLINE_CODE.finditer(line))
