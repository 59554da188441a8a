"""Prose is wrapped at 120 and says the same; what must not be broken is not, and today's pages pass."""

import pytest
from markdown_it import MarkdownIt
from tools.check_wrap import ROOT, WIDTH, pages, too_long, wrap

WORDS = "word " * 30
TABLE = f"| a | b |\n|---|---|\n| {WORDS} | c |"
FENCE = f"```\n{WORDS}\n```"
PAGE = f"""# {WORDS}

{WORDS}
and more.

- [ ] an item `with code in it` {WORDS}
  that goes on
- another {WORDS}
  1. inside it {WORDS}

{TABLE}

{FENCE}

{WORDS}- {WORDS}1. {WORDS}# {WORDS}

See [a link with a label of several words](decisions/0001-one-writer-per-column.md) {WORDS}
"""


def rendered(text: str) -> str:
    return " ".join(MarkdownIt("commonmark").enable("table").render(text).split())


def test_the_pages_of_this_repository_are_wrapped() -> None:
    found = [
        (page.name, *line) for page in pages(ROOT) for line in too_long(page.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_a_wrapped_page_has_no_long_line_and_renders_the_same() -> None:
    assert len(list(too_long(PAGE))) == 6
    wrapped = wrap(PAGE)
    assert list(too_long(wrapped)) == []
    assert rendered(wrapped) == rendered(PAGE)
    assert wrap(wrapped) == wrapped


@pytest.mark.parametrize(
    "kept", [TABLE, FENCE, f"# {WORDS}", f"<p>{WORDS}</p>", f"[name]: https://x.example/{'y' * 120}"]
)
def test_what_cannot_be_wrapped_may_be_long(kept: str) -> None:
    assert list(too_long(kept)) == []
    assert wrap(kept) == kept


@pytest.mark.parametrize("whole", ["`code with spaces`", "[a label](where/it/leads.md)"])
def test_code_and_links_stay_on_one_line(whole: str) -> None:
    for length in range(WIDTH - len(whole) - 5, WIDTH + 5):
        assert whole in wrap(f"{'x' * (length - 2)} y {whole} {WORDS}")


@pytest.mark.parametrize("marker", ["-", "*", "+", "1.", "#", "##", ">", "---", "==="])
def test_no_line_begins_with_what_would_begin_a_block(marker: str) -> None:
    for length in range(WIDTH - 10, WIDTH + 5):
        page = f"{'x' * (length - 2)} y {marker} {WORDS}"
        assert rendered(wrap(page)) == rendered(page)


def test_a_paragraph_of_short_lines_is_left_alone() -> None:
    assert wrap("short\nlines\n\nstay\n") == "short\nlines\n\nstay\n"


def test_a_hard_break_is_left_to_a_person() -> None:
    page = f"{WORDS}  \nnext line"
    assert wrap(page) == page
    assert len(list(too_long(page))) == 1
