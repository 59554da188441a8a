"""Hooks of MkDocs: what the site shows beyond the files of docs/.

Pages of the repository's root appear in the site too. Links are written as they work in the repository;
here a link to a page of the site is pointed at its place there, and a link to a source file becomes plain
text.
"""

import os
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tools.markdown import Link, rewrite_links  # noqa: E402  (MkDocs loads this file by its path)

ROOT_PAGES = {
    "ARCHITECTURE.md": "understand/architecture.md",
    "GLOSSARY.md": "understand/glossary.md",
    "SECURITY.md": "operate/security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "deploy/compose/README.md": "operate/compose.md",
}
DECISIONS = "understand/decisions"
MERMAID = ROOT / "tools" / "site" / "node_modules" / "@mermaid-js" / "tiny" / "dist" / "mermaid.tiny.js"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every decision in the navigation, below their index."""
    decisions = sorted((ROOT / "docs" / DECISIONS).glob("[0-9]*.md"))
    _section(config.nav, "Decisions").extend(f"{DECISIONS}/{page.name}" for page in decisions)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for source, place in ROOT_PAGES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    files.append(File.generated(config, "assets/mermaid.js", abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    source = next((name for name, place in ROOT_PAGES.items() if place == here), f"docs/{here}")

    def point(link: Link) -> str | None:
        if not link.path:
            return None
        target = os.path.normpath(os.path.join(os.path.dirname(source), link.path))
        place = ROOT_PAGES.get(target) or _page_of(target)
        if place is None or files.get_file_from_path(place) is None:
            return link.label
        anchor = f"#{link.anchor}" if link.anchor else ""
        return f"[{link.label}]({os.path.relpath(place, os.path.dirname(here) or '.')}{anchor})"

    return rewrite_links(markdown, point)


def _page_of(target: str) -> str | None:
    if not target.startswith("docs/"):
        return None
    inside = target.removeprefix("docs/")
    return inside if inside.endswith(".md") else f"{inside}/README.md"


def _section(nav: Any, title: str) -> list[Any]:
    """The list of children below `title`, however deep it lies."""
    waiting = list(nav)
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, dict):
            for name, children in entry.items():
                if name == title and isinstance(children, list):
                    return children
                waiting.extend(children if isinstance(children, list) else [])
    raise LookupError(f"mkdocs.yml has no section {title}")
