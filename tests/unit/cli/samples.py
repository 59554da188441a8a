"""Answers of the API, as the API's own documentation shows them."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from codehub.api.schemas import examples
from codehub.cli.answers import ErrorInfo, HistoryEntry, Workspace

NOW = datetime(2025, 1, 1, 12, 1, tzinfo=UTC)


def workspace(**changes: Any) -> Workspace:
    return cast(Workspace, {**copy.deepcopy(examples.WORKSPACE), **changes})


def error(**changes: Any) -> ErrorInfo:
    told = {
        "reason": "RetryExceeded",
        "message": "it ended at once",
        "is_terminal": True,
        "operation": "STARTING",
        "error_count": 4,
        "context": {"last_code": "CONTAINER_START_FAILED"},
        "occurred_at": "2025-01-01T12:00:30+00:00",
    }
    return cast(ErrorInfo, {**told, **changes})


def entry(changes: dict[str, list[Any]], **more: Any) -> HistoryEntry:
    return cast(HistoryEntry, {**examples.HISTORY_ENTRY, "changes": changes, **more})


def activity(**changes: Any) -> dict[str, Any]:
    return {**examples.WORKSPACE["activity"], **changes}


def in_(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat()
