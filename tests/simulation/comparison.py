"""Compare what two databases answered, one real and one simulated."""

from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from codehub.domain.errors import ErrorInfo
from codehub.domain.workspace import WorkspaceView


def comparable(value: Any, labels: dict[Any, str]) -> Any:
    """Without what differs by nature: times are just times, ids become the order they came in."""
    match value:
        case datetime():
            return "time"
        case UUID():
            return labels.setdefault(value, f"id {len(labels)}")
        case dict():
            return {key: comparable(item, labels) for key, item in value.items()}
        case list() | tuple() | set():
            return [comparable(item, labels) for item in value]
        case frozenset():  # of paths: their order says nothing
            return sorted(value)
        case ErrorInfo():
            return comparable(value.as_json() | {"occurred_at": None}, labels)
        case str() | int() | float() | None:
            return value
        case _ if hasattr(value, "__dataclass_fields__"):
            return comparable(asdict(value), labels)
        case _:
            raise AssertionError(f"cannot compare {value!r}")


def order_of_times(ws: WorkspaceView) -> list[str]:
    """The names of a row's times, the earliest first; those that are equal stand together."""
    named = {
        name: getattr(ws, name)
        for name in ("observed_at", "op_started_at", "op_acted_at", "last_retry_at", "deleted_at")
        if getattr(ws, name) is not None
    }
    return sorted(named, key=lambda name: (named[name], name))
