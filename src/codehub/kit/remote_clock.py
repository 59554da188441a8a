"""The database's time between two looks at the database.

Workspaces are judged on the database's time alone. A leader reads it once per tick and carries it forward
with its own monotonic clock for the few seconds until the next.
"""

from datetime import UTC, datetime, timedelta

from codehub.kit.clock import monotonic


class RemoteClock:
    def __init__(self) -> None:
        self._read: tuple[datetime, float] | None = None

    def set(self, now: datetime) -> None:
        self._read = (now, monotonic())

    def now(self) -> datetime:
        if self._read is None:
            return datetime.now(UTC)
        at, when = self._read
        return at + timedelta(seconds=monotonic() - when)
