"""The account of a workspace: what is in the way is said, what is well is not."""

from typing import Any, cast

from codehub.cli.answers import CoordinatorReport
from codehub.cli.explaining import account_of
from codehub.cli.words import status_words
from tests.unit.cli.samples import NOW, activity, entry, error, in_, workspace


def report(**changes: dict[str, Any]) -> CoordinatorReport:
    leader = {
        "is_leader": True,
        "holder_id": "host-1",
        "acquired_at": in_(-7200),
        "epoch": 4,
        "last_tick_at": in_(-3),
        "last_error": None,
        "away": {},
    }
    names = ("wc", "observer", "ttl", "gc", "events")
    coordinators = {name: {**leader, **changes.get(name, {})} for name in names}
    return cast(CoordinatorReport, {"node_id": "host-1", "coordinators": coordinators})


def test_all_is_well() -> None:
    intent = entry(
        {"desired_state": ["STANDBY", "RUNNING"]}, at=in_(-3600), actor="user:ann", cause="asked to start"
    )
    account = account_of(workspace(), history=[entry({"name": ["a", "b"]}), intent], report=report(), now=NOW)
    assert account.summary == "thesis is running, as wanted."
    assert account.facts["wanted"] == "RUNNING, for 1 h (Start requested, by ann)"
    assert account.facts["doing"] == "nothing"
    assert account.facts["next"].startswith("sleeps in 4 min, at ")
    assert account.facts["next"].endswith("once idle for 5 min")
    assert account.obstacles == []
    assert account.leaders["wc"] == "host-1, for 2 h, last tick 3 s ago"


def test_an_operation_under_way() -> None:
    restoring = workspace(
        status="restoring",
        operation="RESTORING",
        observed_status="PENDING",
        op_started_at=in_(-14),
        progress=42,
        activity=activity(next=None),
    )
    account = account_of(restoring, history=[], report=report(), now=NOW)
    assert account.summary == "thesis is restoring: it is archived and should be running."
    assert account.facts["doing"] == "Restoring files from the archive, for 14 s, 42 % done"
    assert account.facts["next"] == "Restoring files from the archive ends, then starts"


def test_a_start_that_waits_for_a_node() -> None:
    waiting = workspace(
        status="starting", operation="STARTING", op_started_at=in_(-14), waiting_for="2 Insufficient memory."
    )
    account = account_of(waiting, history=[], report=report(), now=NOW)
    assert account.facts["doing"].endswith("for 14 s. Waiting for a node: 2 Insufficient memory.")


def test_a_start_that_waits_for_its_ide() -> None:
    waiting = workspace(
        status="starting",
        operation="STARTING",
        op_started_at=in_(-14),
        waiting_for="installing VS Code 42 %",
        progress=None,
    )
    account = account_of(waiting, history=[], report=report(), now=NOW)
    assert account.facts["doing"].endswith("for 14 s, installing VS Code 42 %")
    assert status_words(waiting) == "starting, installing VS Code 42 %"


def test_an_error() -> None:
    broken = workspace(
        status="error", health_status="ERROR", error_info=error(), activity=activity(next=None)
    )
    account = account_of(broken, history=[], report=report(), now=NOW)
    assert "until a person lifts that" in account.summary
    assert account.facts["error"] == "RetryExceeded: it ended at once (30 s ago)"
    assert "codehub ws recover thesis" in account.facts["what to do"]
    assert account.facts["next"] == "waits for a person"


def test_two_leaders_of_one_coordinator_are_said() -> None:
    rival = {"holder_id": "host-9", "lock_name": "blue:coordinator:wc"}
    told = account_of(workspace(), history=[], report=report(wc={"rivals": [rival]}), now=NOW)
    assert [each for each in told.obstacles if "host-9" in each and "COORDINATOR_LOCK_ID" in each]


def test_who_does_not_act() -> None:
    nobody = account_of(workspace(), history=[], report=report(wc={"holder_id": None}), now=NOW)
    assert nobody.obstacles == [
        "Nobody leads wc, which carries out what is wanted: no CodeHub with coordinators runs."
    ]
    assert nobody.leaders["wc"] == "nobody"
    hangs = account_of(workspace(), history=[], report=report(observer={"last_tick_at": in_(-300)}), now=NOW)
    assert "has not worked for 5 min" in hangs.obstacles[0]
    away = account_of(workspace(), history=[], report=report(wc={"away": {"runtime": "refused"}}), now=NOW)
    assert away.obstacles == ["The runtime cannot be used (refused): what needs it waits."]
    unknown = account_of(workspace(), history=[], report=None, now=NOW)
    assert "could not say" in unknown.obstacles[0]
