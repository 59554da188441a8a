"""How an execution ends, and who looks next: one table for all hints of the Reconciler's actions."""

from collections.abc import Mapping
from enum import Enum

from codehub.signals.hints import HintTarget


class Outcome(Enum):
    ACTED = "acted"  # the effect is there; it must be observed
    RESTORED = "restored"
    ARCHIVED = "archived"  # the key is committed; deleting the volume is planned next
    RETRYING = "retrying"  # a failed execution was counted
    GAVE_UP = "gave up"  # terminal
    CRASH_RECORDED = "crash recorded"
    OUTAGE = "outage"  # a backend is away: nothing was counted
    DROPPED = "dropped"  # not leading any more, or another owner


_OBSERVER = frozenset({HintTarget.OBSERVER})  # its look wakes the Reconciler in turn
_RECONCILER = frozenset({HintTarget.RECONCILER})

HINTED_AFTER: Mapping[Outcome, frozenset[HintTarget]] = {
    Outcome.ACTED: _OBSERVER,
    Outcome.RESTORED: _OBSERVER,
    Outcome.ARCHIVED: _RECONCILER,
    Outcome.RETRYING: _RECONCILER,
    Outcome.GAVE_UP: _OBSERVER | _RECONCILER,
    Outcome.CRASH_RECORDED: _RECONCILER,
    Outcome.OUTAGE: _RECONCILER,
    Outcome.DROPPED: _RECONCILER,
}
"""A slot that comes free in a full lane wakes the Reconciler as well (``executions``)."""
