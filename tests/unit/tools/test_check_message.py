"""Which subjects of commits are taken."""

import pytest
from tools.check_message import complaint


@pytest.mark.parametrize(
    "message",
    [
        "docs: correct the relay's benchmark claim\n",
        "proxy, api: count a WebSocket once\n\nThe why.\n# a comment of git's\n",
        "Merge branch 'a' into b",
        "fixup! docs: x",
    ],
)
def test_these_are_taken(message: str) -> None:
    assert complaint(message) is None


@pytest.mark.parametrize(
    ("message", "word"),
    [
        ("Correct the relay's claim", "area: what"),
        ("docs: correct it.", "area: what"),
        ("docs:", "area: what"),
        ("", "area: what"),
        ("docs: " + "x" * 67, "73 characters"),
        ("docs: one\ntwo", "empty line"),
    ],
)
def test_these_are_refused(message: str, word: str) -> None:
    assert word in (complaint(message) or "")
