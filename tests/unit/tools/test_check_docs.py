"""The documentation's check finds what it is for, and today's documentation passes it."""

import subprocess
from pathlib import Path

import pytest
from tools.check_docs import DECISIONS, ROOT, problems
from tools.markdown import anchors, links, rewrite_links

GONE = "docs/" + "gone.md"  # in two pieces: this file is looked at, too
LOST = "docs/" + "lost.md"
UNLISTED = f"neither in the table of {DECISIONS}README.md nor linked from another decision"
DECISION = "Status Date Context Decision Alternatives Consequences Enforced by"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    write(tmp_path, "mkdocs.yml", "nav: [README.md]\n")
    write(tmp_path, "docs/README.md", "# Start\n\n## Two words\n")
    write(tmp_path, DECISIONS + "README.md", "| [0001](0001-first.md) |\n")
    write(tmp_path, DECISIONS + "0001-first.md", DECISION)
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text, encoding="utf-8")


def test_the_documentation_of_this_repository_is_whole() -> None:
    assert list(problems(ROOT)) == []


def test_links_that_lead_somewhere_are_fine(repository: Path) -> None:
    write(
        repository,
        "README.md",
        "[a](docs/README.md) [b](docs/README.md#two-words) [c](https://x.example/y) [d](docs)",
    )
    assert list(problems(repository)) == []


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("README.md", f"[a]({GONE})", f"README.md:1: there is no {GONE}"),
        ("README.md", "\n[a](docs/README.md#three)", "README.md:2: docs/README.md has no heading #three"),
        ("README.md", "# One\n[a](#two)", "README.md:2: README.md has no heading #two"),
        ("docs/README.md", "[a](../../elsewhere)", "docs/README.md:1: there is no ../elsewhere"),
        (LOST, "", f"{LOST}: not in the navigation of mkdocs.yml"),
        ("src/a.py", f'"""See {GONE}."""', f"src/a.py:1: there is no {GONE}"),
        (
            DECISIONS + "0002-x.md",
            DECISION,
            f"{DECISIONS}0002-x.md: {UNLISTED}",
        ),
        (DECISIONS + "0001-first.md", DECISION[7:], f"{DECISIONS}0001-first.md: says nothing under 'Status'"),
    ],
)
def test_what_is_wrong_is_found(repository: Path, name: str, text: str, found: str) -> None:
    write(repository, name, text)
    assert list(problems(repository)) == [found]


def test_links_in_code_are_examples() -> None:
    text = "`[a](b.md)` and [c](d.md)\n```\n[e](f.md)\n```\n[`g`](h.md)"
    assert [(link.label, link.path, link.line) for link in links(text)] == [
        ("c", "d.md", 1),
        ("`g`", "h.md", 5),
    ]
    assert (
        rewrite_links(text, lambda link: f"<{link.path}>")
        == "`[a](b.md)` and <d.md>\n```\n[e](f.md)\n```\n<h.md>"
    )


def test_links_may_be_broken_over_lines() -> None:
    text = "one [two\nthree](four.md) five"
    assert [(link.path, link.line) for link in links(text)] == [("four.md", 1)]
    assert rewrite_links(text, lambda link: link.label) == "one two\nthree five"


def test_anchors_are_those_of_the_forge() -> None:
    text = "# The `codehub` command\n## What's new?\n## What's new?\n```\n# no\n```\n## [A](b.md) – c"
    assert anchors(text) == {"the-codehub-command", "whats-new", "whats-new-1", "a--c"}
