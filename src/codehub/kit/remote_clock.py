"""Extrapolate the database's time between two reads of it.

Decisions about workspaces use the database's time alone. A leader reads it once per tick and carries it
forward with its own monotonic clock for the few seconds until the next read.
"""

from datetime import UTC, datetime, timedelta

from codehub.kit.clock import monotonic


class RemoteClock:
    """The time last read, plus the monotonic time since; local time before any read."""

    def __init__(self) -> None:
        self._read: tuple[datetime, float] | None = None

    def set(self, now: datetime) -> None:
        self._read = (now, monotonic())

    def now(self) -> datetime:
        if self._read is None:
            return datetime.now(UTC)
        at, when = self._read
        return at + timedelta(seconds=monotonic() - when)
