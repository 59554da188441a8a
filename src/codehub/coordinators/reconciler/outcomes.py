"""Outcomes of executions, and which coordinator is hinted after each."""

from collections.abc import Mapping
from enum import Enum

from codehub.signals.hints import HintTarget


class Outcome(Enum):
    """How an execution ended."""

    ACTED = "acted"  # the action ended; its effect must be observed
    RESTORED = "restored"
    ARCHIVED = "archived"  # the key is committed; deleting the volume is planned next
    RETRYING = "retrying"  # a failed execution was counted
    GAVE_UP = "gave up"  # terminal
    CRASH_RECORDED = "crash recorded"
    OUTAGE = "outage"  # a backend is away: nothing was counted
    DROPPED = "dropped"  # not leading any more, or another owner


_OBSERVER = frozenset({HintTarget.OBSERVER})  # its observation hints the Reconciler in turn
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
"""A slot released in a full lane wakes the Reconciler as well (``executions``)."""
