"""Find links and headings in Markdown as GitHub reads them; used by the link check and by the site.

Code is not searched: a link inside a fence or between backticks is an example.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")
_INLINE_CODE = re.compile(r"(`+)(?:(?!\1|\n\n).)+?\1", re.DOTALL)
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
    for match in _matches(text):
        yield _link(text, match)


def rewrite_links(text: str, replace: Callable[[Link], str | None]) -> str:
    """The text with each link replaced by what `replace` returns; None, and a picture, stays as it is."""
    written, end = [], 0
    for match in _matches(text):
        new = None if match["bang"] else replace(_link(text, match))
        if new is not None:
            written += [text[end : match.start()], new]
            end = match.end()
    return "".join([*written, text[end:]])


def _matches(text: str) -> Iterator[re.Match[str]]:
    """Links may be broken over lines, so the text is searched as a whole, with its fences blanked out."""
    kept = dict(prose_lines(text))
    lines = text.split("\n")
    prose = "\n".join(
        line if number in kept else " " * len(line) for number, line in enumerate(lines, start=1)
    )
    code = [(match.start(), match.end()) for match in _INLINE_CODE.finditer(prose)]
    for match in _LINK.finditer(prose):
        inside_code = any(start < match.start() < end for start, end in code)
        if not inside_code and not _EXTERNAL.match(match["target"]) and "\n\n" not in match["label"]:
            yield match


def _link(text: str, match: re.Match[str]) -> Link:
    path, _, anchor = match["target"].partition("#")
    return Link(match["label"], path, anchor, text.count("\n", 0, match.start()) + 1)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings: lower case, no punctuation, hyphens for spaces, doubles numbered."""
    found: dict[str, int] = {}
    result: set[str] = set()
    for _, line in prose_lines(text):
        if (match := _HEADING.match(line)) is None:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[2]).replace("`", "").replace("*", "")
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        result.add(f"{slug}-{count}" if count else slug)
    return result


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Every line outside of fences, with its number from 1."""
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
