"""Remember when a person last caused something in each workspace, for ``leases``.

Times are the event loop's.
"""

from collections.abc import Set
from typing import Protocol
from uuid import UUID

BEAT_SECONDS = 90.0
MAX_TARGETS = 64  # of each workspace


class InputMeter(Protocol):
    """Counts what a client sends through one WebSocket (``upstream/relay.Meter``)."""

    @property
    def input_at(self) -> int:
        """When the last input came, in monotonic nanoseconds; 0: none yet."""


class Beats:
    """Tells changes of a person from those that a page repeats by itself.

    JupyterLab saves its layout every 10 s whether or not it changed, and a person's work every
    two minutes. So a change is input unless the same target was changed within ``BEAT_SECONDS``.
    """

    __slots__ = ("_changed_at",)

    def __init__(self) -> None:
        self._changed_at: dict[bytes, float] = {}  # by target, oldest first

    def is_input(self, target: bytes, now: float) -> bool:
        before = self._changed_at.pop(target, float("-inf"))
        if len(self._changed_at) >= MAX_TARGETS:  # one that is forgotten counts as input the next time
            del self._changed_at[next(iter(self._changed_at))]
        self._changed_at[target] = now
        return now - before > BEAT_SECONDS


class Inputs:
    """The last input of each workspace that one proxy serves, and whether it was reported."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._at: dict[UUID, float] = {}
        self._reported: dict[UUID, tuple[float, float]] = {}  # the input, and when it was reported

    def note(self, workspace_id: UUID, at: float) -> None:
        if at > self._at.get(workspace_id, float("-inf")):
            self._at[workspace_id] = at

    def age(self, workspace_id: UUID, now: float) -> float | None:
        """Seconds since the last input; None: none was seen."""
        at = self._at.get(workspace_id)
        return None if at is None else max(0.0, now - at)

    def due(self, now: float) -> set[UUID]:
        """The workspaces with input to report, each at most once in the interval."""
        due = set()
        for workspace_id, at in self._at.items():
            reported, when = self._reported.get(workspace_id, (float("-inf"), float("-inf")))
            if at > reported and now - when >= self._interval:
                self._reported[workspace_id] = at, now
                due.add(workspace_id)
        return due

    def keep(self, workspace_ids: Set[UUID]) -> None:
        """Forget all workspaces but these. What was reported stays in Redis."""
        for gone in self._at.keys() - workspace_ids:
            del self._at[gone]
            self._reported.pop(gone, None)
