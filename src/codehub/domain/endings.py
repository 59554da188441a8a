"""Describe how a workspace's container ended without being asked to (a crash).

Runtimes report what their engine knows (``Ending``); the Reconciler records it. Running out of memory is a kind
of its own, because people can do something about it.
"""

import signal
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from codehub.domain.errors import FailureCode

_SIGNAL_BASE = 128
"""Shells and Docker report "ended by signal N" as exit code 128 + N."""


class Disruption(StrEnum):
    """Why an engine ended a container that had done nothing wrong."""

    EVICTED = "evicted"  # its node ran short of something
    PREEMPTED = "preempted"  # something more important needed its place
    NODE_LOST = "node_lost"  # its node was shut down, or does not answer


class CrashKind(StrEnum):
    OUT_OF_MEMORY = "out_of_memory"
    EVICTED = "evicted"
    PREEMPTED = "preempted"
    NODE_LOST = "node_lost"
    SIGNAL = "signal"
    EXIT = "exit"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Ending:
    """How a container ended, as the engine reports it. ``exit_code`` None: not known.

    ``disruption``: it was ended for a reason outside of it, and ``detail`` is what the engine says of that.
    """

    exit_code: int | None = None
    out_of_memory: bool = False
    memory_limit_bytes: int | None = None
    disruption: Disruption | None = None
    detail: str = ""

    @property
    def signal(self) -> int | None:
        code = self.exit_code
        return code - _SIGNAL_BASE if code is not None and _SIGNAL_BASE < code <= _SIGNAL_BASE + 64 else None

    @property
    def kind(self) -> CrashKind:
        if self.out_of_memory:
            return CrashKind.OUT_OF_MEMORY
        if self.disruption is not None:
            return CrashKind(self.disruption.value)
        if self.signal is not None:
            return CrashKind.SIGNAL
        return CrashKind.UNKNOWN if self.exit_code is None else CrashKind.EXIT

    @property
    def failure(self) -> FailureCode:
        if self.out_of_memory:
            return FailureCode.OUT_OF_MEMORY
        return _FAILURE_OF[self.disruption] if self.disruption is not None else FailureCode.CONTAINER_ENDED

    @property
    def context(self) -> dict[str, object]:
        """The known fields, for ``error_info``."""
        known = {
            "code": self.failure.value,
            "crash": self.kind.value,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "memory_limit_bytes": self.memory_limit_bytes if self.out_of_memory else None,
            "detail": self.detail or None,
        }
        return {key: value for key, value in known.items() if value is not None}

    @property
    def words(self) -> str:
        """The ending as the predicate of a sentence about a process or a container."""
        if self.out_of_memory:
            limit = f" (its limit is {_size(self.memory_limit_bytes)})" if self.memory_limit_bytes else ""
            return f"ran out of memory and was killed{limit}"
        if self.disruption is not None:
            return _DISRUPTION_WORDS[self.disruption] + (
                f" ({self.detail.strip()})" if self.detail.strip() else ""
            )
        if self.signal == signal.SIGKILL:
            return "was killed from outside (exit 137, SIGKILL), by a person or for lack of memory"
        if self.signal is not None:
            return f"was ended by signal {self.signal}{_signal_name(self.signal)}"
        return "ended by itself" + ("" if self.exit_code is None else f" with exit code {self.exit_code}")


_FAILURE_OF = {
    Disruption.EVICTED: FailureCode.EVICTED,
    Disruption.PREEMPTED: FailureCode.PREEMPTED,
    Disruption.NODE_LOST: FailureCode.NODE_LOST,
}
_DISRUPTION_WORDS = {
    Disruption.EVICTED: "was evicted from its node",
    Disruption.PREEMPTED: "had to make room for something more important",
    Disruption.NODE_LOST: "was lost with its node",
}


def crash_words(ending: Ending, *, ran_for: timedelta, soon: bool) -> str:
    """The sentence people read about a crash."""
    when = "soon after it had started" if soon else f"after it had run for {_time(ran_for)}"
    return f"The workspace's process {ending.words}, {when}."


def _signal_name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def _size(count: int) -> str:
    return f"{count / 1024**3:.3g} GiB" if count >= 1024**3 else f"{count / 1024**2:.3g} MiB"


def _time(span: timedelta) -> str:
    minutes = int(span.total_seconds()) // 60
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
