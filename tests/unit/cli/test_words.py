"""Sentences about workspaces."""

from typing import Any

import pytest

from codehub.cli.timeline import entry_words, is_significant
from codehub.cli.words import activity_words, advice, ago, clean, next_words, size, span
from tests.unit.cli.samples import NOW, activity, entry, error, in_, workspace


def busy(what: str, name: str = "") -> dict[str, Any]:
    return {"because": "busy", "since": in_(-7200), "work": {"what": what, "name": name, "until": in_(36000)}}


FAR = {"to": "STANDBY", "at": in_(7200), "why": ""}
ASLEEP = {"status": "standby", "desired_state": "STANDBY", "observed_status": "STANDBY"}
ARCHIVED = {
    "status": "archived",
    "desired_state": "PENDING",
    "observed_status": "PENDING",
    "activity": activity(next=None),
}


def in_line(place: int, limit: str, seconds: int | None) -> dict[str, Any]:
    queue = {"place": place, "limit": limit, "since": in_(-60), "estimated_seconds": seconds}
    return {"queued_at": in_(-60), "activity": activity(next=None, queue=queue)}


def given_up() -> Any:
    """Archiving stumbled over a file, and is tried again in an hour."""
    context = {"code": "HOME_NOT_ARCHIVABLE", "files": ["a/locked"], "next_try_at": in_(3600)}
    return error(operation="ARCHIVING", is_terminal=False, reason="ActionFailed", context=context)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (42.4, "42 s"),
        (59.4, "59 s"),
        (95, "2 min"),
        (298, "5 min"),
        (3599, "1 h"),
        (7500, "2 h 5 min"),
        (86400 * 3 + 4 * 3600, "3 d 4 h"),
        (-5, "0 s"),
    ],
)
def test_spans(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_ages_and_sizes() -> None:
    assert [ago(None, now=NOW), ago(in_(-1), now=NOW), ago(in_(-90), now=NOW)] == [
        "never",
        "just now",
        "2 min ago",
    ]
    assert [size(0), size(999), size(1500), size(5_368_709_120), size(2e15)] == [
        *("0 B", "999 B", "1.5 KB", "5.4 GB", "2000.0 TB")
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "sleeps in 4 min"),
        ({"activity": activity(next={"to": "STANDBY", "at": in_(-3), "why": ""})}, "sleeps any moment"),
        ({"activity": activity(next=None, connections=2)}, "awake while in use"),
        ({**ASLEEP, **in_line(2, "limit_global", 300)}, "number 2 in line, about 5 min"),
        ({**ASLEEP, **in_line(1, "limit_global", None)}, "next in line"),
        (
            {**ASLEEP, **in_line(1, "limit_user", None)},
            "in line, starts when another one of its owner's sleeps",
        ),
        (
            {"activity": activity(next=FAR, awake={"because": "open", "since": in_(-5)})},
            "open in a window and in use",
        ),
        (
            {"activity": activity(next=FAR, awake={"because": "open", "since": in_(-2400)})},
            "open in a window, untouched for 40 min",
        ),
        (
            {"activity": activity(awake={"because": "open", "since": in_(-2400)})},
            "sleeps in 4 min",
        ),
        (
            {"activity": activity(next=FAR, awake=busy("kernel"))},
            "kept awake: notebook busy for 2 h",
        ),
        (
            {"activity": activity(next=FAR, awake=busy("job", "make"))},
            "kept awake: make at work for 2 h",
        ),
        (
            {"activity": activity(next=FAR, awake=busy("later release"))},
            "kept awake: busy for 2 h",
        ),
        ({"activity": activity(next=None, connections=None)}, ""),
        ({"activity": activity(next=None), "standby_ttl_seconds": 0}, "never sleeps by itself"),
        ({"awake_until": in_(7200), "activity": activity(next=None)}, "kept awake for 2 h"),
        ({"awake_until": in_(-1)}, "sleeps in 4 min"),
        (
            {**ASLEEP, "activity": activity(next={"to": "PENDING", "at": in_(3600), "why": ""})},
            "is archived in 1 h",
        ),
        ({**ASLEEP, "activity": activity(next=None), "archive_ttl_seconds": 0}, "stays asleep until opened"),
        (ARCHIVED, "comes back when opened"),
        ({**ARCHIVED, "status": "new"}, "starts when opened"),
        ({**ARCHIVED, "desired_state": "RUNNING"}, "about to start"),
        (
            {**ARCHIVED, "desired_state": "RUNNING", "operation": "RESTORING", "status": "restoring"},
            "then starts",
        ),
        ({**ASLEEP, "desired_state": "RUNNING", "operation": "STARTING", "status": "starting"}, ""),
        ({"desired_state": "PENDING", "operation": "STOPPING", "status": "stopping"}, "then is archived"),
        ({"status": "error", "error_info": error()}, "waits for a person"),
        ({"status": "error", "error_info": None}, "is looked at again"),
        ({"error_info": error(is_terminal=False, error_count=1)}, "tries again (attempt 2)"),
        (
            {**ASLEEP, "desired_state": "PENDING", "error_info": given_up()},
            "not archived, tries again in 1 h",
        ),
        ({**ASLEEP, "desired_state": "RUNNING", "error_info": given_up()}, "about to start"),
        ({"status": "deleting", "deleted_at": in_(-5)}, "goes for good"),
    ],
)
def test_what_comes_next(changes: dict[str, Any], words: str) -> None:
    assert next_words(workspace(**changes), now=NOW) == words


def test_activity() -> None:
    assert activity_words(workspace(), now=NOW) == "last used 1 min ago, by a page; no open connections"
    never = workspace(activity=activity(last_seen_at=None, connections=None))
    assert activity_words(never, now=NOW).endswith("open connections unknown")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "See why it ended"),
        ({"is_terminal": False}, "Nothing yet"),
        ({"reason": "DataLost"}, "Nothing was overwritten"),
        ({"context": {"code": "NO_SPACE"}}, "Free some room"),
        ({"reason": "Mismatch", "context": {"expected": "volume_exists=True"}}, "If a disk is not mounted"),
        ({"reason": "Unreachable", "context": {}}, "Wait until"),
        ({"reason": "Timeout", "context": {}}, "Recovering tries the step again"),
        (
            given_up(),
            "The home is whole. Mend or remove: a/locked. To get at it: codehub ws start 'my thesis'. "
            "To archive it again now: codehub ws recover 'my thesis'.",
        ),
    ],
)
def test_advice(changes: dict[str, Any], words: str) -> None:
    assert advice(error(**changes), name="my thesis").startswith(words)


def test_advice_can_be_pasted_into_a_shell() -> None:
    assert "codehub ws recover 'my; thesis'" in advice(error(), name="my; thesis")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (entry({"name": [None, "x"]}, version=1, actor="user:ann", cause="created"), "Created, by ann"),
        (
            entry({"desired_state": ["RUNNING", "STANDBY"]}, actor="ttl", cause="idle for 5 min"),
            "Put to sleep: idle for 5 min, by idleness",
        ),
        (
            entry({"desired_state": ["STANDBY", "RUNNING"]}, actor="user:ann", cause="asked to start"),
            "Start requested, by ann",
        ),
        (
            entry({"operation": ["NONE", "RESTORING"]}, actor="reconciler"),
            "Restoring files from the archive, by the reconciler",
        ),
        (entry({"observed_status": ["STANDBY", "RUNNING"]}), "Running, by the observer"),
        (
            entry({"error_info": [None, {"is_terminal": True}]}, actor=None, cause="it broke\x1b[2J"),
            "Failed: it broke\ufffd[2J",
        ),
        (entry({"error_info": [None, {"is_terminal": False}]}, actor=None), "Failed, will try again"),
        (entry({"error_info": [{}, None]}, actor="cli:root"), "Error cleared, by the command line"),
        (entry({"deleted_at": [None, "now"]}, actor="user:ann"), "Deletion requested, by ann"),
        (entry({"awake_until": [None, "later"]}, actor=None), "Kept awake"),
        (entry({"health_status": ["OK", "ERROR"]}, actor=None), "Marked as broken"),
        (entry({"name": ["a", "b"]}, actor=None), "Renamed from a to b"),
        (entry({"memo": ["a", "b"]}, actor=None), "Settings changed"),
    ],
)
def test_the_timeline(given: Any, words: str) -> None:
    assert entry_words(given) == words


def test_an_operation_that_merely_ended_is_no_news() -> None:
    assert not is_significant(entry({"operation": ["STARTING", "NONE"], "error_count": [1, 0]}))
    assert is_significant(
        entry({"operation": ["STARTING", "NONE"], "observed_status": ["STANDBY", "RUNNING"]})
    )


def test_nothing_a_stranger_wrote_reaches_the_terminal_as_a_command() -> None:
    assert clean("a\x1b]0;title\x07b\u202ec\nd\te") == "a\ufffd]0;title\ufffdb\ufffdc\nd\te"
