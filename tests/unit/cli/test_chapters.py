"""The history as people tell it: the cases of the dashboard, in its own words."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from codehub.cli.answers import HistoryEntry
from codehub.cli.chapters import chapter_words, chapters
from codehub.domain import causes

ROOT = Path(__file__).resolve().parents[3]
TOLD: dict[str, Any] = json.loads((ROOT / "web" / "src" / "words" / "chapters.json").read_text())
CASES: list[dict[str, Any]] = TOLD["cases"]


def history_of(written: list[list[Any]]) -> list[HistoryEntry]:
    """The entries as the API gives them: newest first, causes with their codes."""
    entries = []
    for number, (second, changes, _actor, cause) in enumerate(written, start=2):
        known = causes.parse(cause)
        entries.append(
            {
                "seq": number,
                "version": 1 if cause == "created" else number,
                "at": (datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=second)).isoformat(),
                "changes": changes,
                # Nobody, so that the words are those of the dashboard, which names people beside them.
                "actor": None,
                "cause": cause if known else None,
                "cause_code": known.code if known else None,
                "cause_params": known.params if known else {},
            }
        )
    return cast(list[HistoryEntry], entries[::-1])


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_dashboards_words(case: dict[str, Any]) -> None:
    told = chapters(history_of(case["history"]))
    assert [chapter_words(each, sizes={TOLD["key"]: TOLD["bytes"]}) for each in told] == case["en"]


def test_who_asked_is_named_and_codehub_itself_is_not() -> None:
    entries = history_of(
        [
            [
                0,
                {"desired_state": ["RUNNING", "STANDBY"], "observed_status": ["RUNNING", "STANDBY"]},
                "",
                "asked to stop",
            ]
        ]
    )
    entries[0]["actor"] = "user:ann"
    assert chapter_words(chapters(entries)[0], sizes={}) == "Put to sleep, by ann"
    entries[0]["actor"] = "ttl"
    assert chapter_words(chapters(entries)[0], sizes={}) == "Put to sleep"
