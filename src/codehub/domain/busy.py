"""What a workspace does by itself while nobody is connected, and for how long that counts as use.

A sample finds signs of work. A sign holds the workspace awake until the next sample is due, and all signs in a row
for ``busy_limit`` at most. What cannot be told counts as a sign, too: losing one never puts to sleep.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any


class BusyWith(StrEnum):
    """What a busy workspace does."""

    KERNEL = "kernel"  # a notebook executes a cell
    JOB = "job"  # a program runs in the foreground of a terminal, or detached
    CPU = "cpu"  # its processes compute
    IDE = "ide"  # the image says so, at a path of its own
    UNKNOWN = "unknown"  # it could not be asked


@dataclass(frozen=True)
class BusySign:
    """One sign of work. ``name``: of a job's program, or what the image says."""

    what: BusyWith
    name: str = ""


@dataclass(frozen=True)
class Busy:
    """``workspaces.busy``: signs of work in a row since ``since``; they count until ``until``."""

    sign: BusySign
    since: datetime
    until: datetime

    def as_json(self) -> dict[str, object]:
        return {
            "what": self.sign.what.value,
            "name": self.sign.name,
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Busy":
        known = value["what"] in BusyWith.__members__.values()  # a later release may know more signs
        return cls(
            BusySign(BusyWith(value["what"]) if known else BusyWith.UNKNOWN, str(value.get("name", ""))),
            since=datetime.fromisoformat(value["since"]),
            until=datetime.fromisoformat(value["until"]),
        )


def extend_busy(
    before: Busy | None,
    sign: BusySign,
    *,
    used_at: datetime,
    now: datetime,
    lease: timedelta,
    limit: timedelta,
) -> Busy | None:
    """Hold a busy workspace awake until the next sample; None: it has been busy for ``limit``.

    ``used_at``: when a person last used it, at the latest. The limit counts from then, or from the first sign after.
    """
    since = before.since if before is not None and before.since >= used_at else now
    until = min(now + lease, since + limit)
    return Busy(sign, since, until) if until > now else None
