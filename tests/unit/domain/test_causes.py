"""Every cause is a sentence that can be read back, and the dashboard knows each one of them."""

import re
from pathlib import Path

import pytest

from codehub.domain.causes import SENTENCES, Cause, CauseCode, in_words, parse
from codehub.domain.errors import FailureCode, Reason

WORDS = Path(__file__).parents[3] / "web" / "src" / "words" / "causes.ts"


@pytest.mark.parametrize("code", CauseCode)
@pytest.mark.parametrize("seconds", [1, 90, 300, 3600, 5400, 86400, 604800])
def test_a_recorded_sentence_gives_its_cause_back(code: CauseCode, seconds: int) -> None:
    cause = Cause(code, seconds if "{time}" in SENTENCES[code] else None)
    assert parse(cause.text) == cause


@pytest.mark.parametrize(
    "text", [None, "", "idle", "idle for ever", "Docker said: idle for 5 min", "Created"]
)
def test_what_is_no_cause_of_ours_stays_text(text: str | None) -> None:
    assert parse(text) is None


def test_the_dashboard_has_words_for_every_code() -> None:
    """Its types hold both languages to these lists."""
    assert {*listed("SAID_BY_THE_CHANGE"), *listed("TOLD_CAUSES")} == {code.value for code in CauseCode}
    assert listed("FAILURE_CODES") == [code.value for code in FailureCode]
    assert listed("REASONS") == [reason.value for reason in Reason]


def listed(name: str) -> list[str]:
    found = re.search(rf"export const {name} = \[(.*?)\]", WORDS.read_text(), re.DOTALL)
    assert found is not None, name
    return re.findall(r'"(\w+)"', found.group(1))


@pytest.mark.parametrize(
    ("count", "words"),
    [(90, "90 s"), (300, "5 min"), (3600, "1 h"), (5400, "90 min"), (86400, "1 d"), (1, "1 s")],
)
def test_durations_in_words(count: int, words: str) -> None:
    assert in_words(count) == words
