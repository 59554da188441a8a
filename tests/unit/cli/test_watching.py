"""When a workspace has come to rest."""

from typing import Any

import pytest

from codehub.cli.watching import WatchOutcome, outcome_of
from tests.unit.cli.samples import error, workspace


@pytest.mark.parametrize(
    ("changes", "rest"),
    [
        ({}, WatchOutcome.CONVERGED),
        ({"desired_state": "STANDBY"}, None),
        (
            {"desired_state": "STANDBY", "observed_status": "STANDBY", "queued_at": "2025-01-01T12:00:00Z"},
            None,
        ),
        ({"operation": "STOPPING", "status": "stopping"}, None),
        ({"error_info": error(is_terminal=False)}, WatchOutcome.CONVERGED),
        ({"status": "error", "error_info": error()}, WatchOutcome.FAILED),
        (
            {
                "desired_state": "PENDING",
                "observed_status": "STANDBY",
                "error_info": error(
                    operation="ARCHIVING",
                    is_terminal=False,
                    context={"next_try_at": "2025-01-01T13:00:00+00:00"},
                ),
            },
            WatchOutcome.FAILED,
        ),
        # Recovered just now: the Observer has not looked yet.
        ({"status": "error", "error_info": None, "health_status": "ERROR"}, None),
        ({"status": "deleting", "deleted_at": "2025-01-01T12:00:00+00:00"}, None),
        ({"status": "deleted", "deleted_at": "2025-01-01T12:00:00+00:00"}, WatchOutcome.DELETED),
    ],
)
def test_rest(changes: dict[str, Any], rest: WatchOutcome | None) -> None:
    assert outcome_of(workspace(**changes)) is rest
