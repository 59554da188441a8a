"""Circuit breaker of one engine: tell its outage from a workspace's failure.

A breaker stands between the Reconciler and one engine (the runtime, the archive store). While it is
open, operations that need the engine wait and use up neither retries nor timeouts. It opens when the
engine's probe fails or when several workspaces in a row found it unreachable, and closes when a probe
succeeds. The value is immutable: the Reconciler keeps the latest one in memory, and a new leader begins
with a closed breaker, which the first failure opens again.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

OPEN_AFTER = 3
"""Open after this many distinct workspaces in a row found the engine unreachable, with no success between."""

FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=5)


@dataclass(frozen=True)
class Breaker:
    """State of one engine's circuit breaker. Immutable: every event gives a new value."""

    opened_at: datetime | None = None
    probe_at: datetime | None = None  # while open: when the next probe is due
    pause: timedelta = FIRST_PAUSE
    closed_at: datetime | None = None  # when it last closed: timeouts count from here
    last_error: str | None = None
    suspects: frozenset[UUID] = field(default_factory=frozenset)

    @property
    def is_open(self) -> bool:
        return self.opened_at is not None

    def probe_due(self, now: datetime) -> bool:
        return self.probe_at is not None and now >= self.probe_at

    def succeeded(self, now: datetime) -> "Breaker":
        """Record a successful call: close an open breaker, clear the suspects."""
        if not self.is_open:
            return replace(self, suspects=frozenset()) if self.suspects else self
        return Breaker(closed_at=now)

    def unreachable(self, workspace_id: UUID, *, error: str, now: datetime) -> "Breaker":
        """Record an action that could not reach the engine.

        Opens after ``OPEN_AFTER`` workspaces. One workspace alone proves nothing about the engine; several in a row do.
        """
        suspects = self.suspects | {workspace_id}
        if self.is_open or len(suspects) < OPEN_AFTER:
            return replace(self, suspects=suspects, last_error=error)
        return self.probe_failed(error=error, now=now)

    def probe_failed(self, *, error: str, now: datetime) -> "Breaker":
        """Open the breaker, or keep it open with twice the pause (``LONGEST_PAUSE``)."""
        pause = min(self.pause * 2, LONGEST_PAUSE) if self.is_open else FIRST_PAUSE
        return replace(
            self,
            opened_at=self.opened_at or now,
            probe_at=now + pause,
            pause=pause,
            last_error=error,
        )
