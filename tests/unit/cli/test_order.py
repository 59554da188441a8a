"""The order of ``codehub ws list``: the dashboard's (``web/src/live/order.test.ts``)."""

from typing import Any

from codehub.cli.order import in_order
from tests.unit.cli.samples import workspace


def named(name: str, **change: Any) -> Any:
    return workspace(id=f"id-{name}", name=name, **change)


def used(day: str) -> str:
    return f"2026-01-{day}T00:00:00+00:00"


def test_trouble_then_what_runs_then_what_was_used_last_then_what_is_leaving() -> None:
    listed = in_order(
        [
            named("long ago", status="standby", last_access_at=used("01")),
            named("leaving", status="deleting", last_access_at=used("09")),
            named("yesterday", status="archived", last_access_at=used("08")),
            named("starts", status="starting"),
            named("runs", status="running"),
            named("broken", status="error"),
        ]
    )
    assert [each["name"] for each in listed] == [
        "broken",
        "runs",
        "starts",
        "yesterday",
        "long ago",
        "leaving",
    ]


def test_names_as_people_count() -> None:
    listed = in_order(named(name, status="running") for name in ("run 10", "Run 9", "run 2", "alpha", "7"))
    assert [each["name"] for each in listed] == ["7", "alpha", "run 2", "Run 9", "run 10"]
