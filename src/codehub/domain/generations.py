"""The archives of one workspace that its row remembers, and the one a person chose to return to.

A *generation* is one committed archive. The row remembers the latest ones with their checksums, so that an older one is
restored as strictly bound as the current one. ``ChosenArchive`` is an intent (``workspaces.restore_from``): services
write it, and the Reconciler clears it with the statement that makes the chosen archive the home.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

REMEMBERED = 20
"""Generations a row remembers. Older ones are bound by the checksum of their meta, read when they are chosen."""


@dataclass(frozen=True)
class ChosenArchive:
    """The archive a person wants to return to. ``sha256``: what is restored must have it."""

    archive_key: str
    created_at: datetime
    sha256: str | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "archive_key": self.archive_key,
            "created_at": self.created_at.isoformat(),
            "sha256": self.sha256,
            "sizes": dict(self.sizes),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "ChosenArchive":
        return cls(
            archive_key=str(value["archive_key"]),
            created_at=datetime.fromisoformat(value["created_at"]),
            sha256=value.get("sha256"),
            sizes=value.get("sizes") or {},
        )


@dataclass(frozen=True)
class Generation:
    """A committed archive, as the row remembers it.

    ``damaged``: a restore found it missing or damaged, and its person went back to another one.
    ``left``: how many archives were committed since the workspace returned from this one to another; None: it never
    did. The archive GC keeps what was left like a new generation, so that a return can be undone.
    """

    archive_key: str
    sha256: str | None = None
    damaged: bool = False
    left: int | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "archive_key": self.archive_key,
            "sha256": self.sha256,
            "damaged": self.damaged,
            "left": self.left,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Generation":
        return cls(
            archive_key=str(value["archive_key"]),
            sha256=value.get("sha256"),
            damaged=bool(value.get("damaged", False)),
            left=value.get("left"),
        )


Generations = tuple[Generation, ...]


def find(generations: Sequence[Generation], archive_key: str) -> Generation | None:
    return next((each for each in generations if each.archive_key == archive_key), None)


def with_latest(generations: Generations, latest: Generation) -> Generations:
    """Put ``latest`` first, in place of what was remembered of it; the oldest is forgotten."""
    others = tuple(each for each in generations if each.archive_key != latest.archive_key)
    return (latest, *others)[:REMEMBERED]


def after_commit(generations: Generations) -> Generations:
    """One more archive was committed: what was left is older by one."""
    return tuple(each if each.left is None else replace(each, left=each.left + 1) for each in generations)


def left_within(generations: Sequence[Generation], keep: int) -> frozenset[str]:
    """The archives that were left and that fewer than ``keep`` new ones have followed."""
    return frozenset(each.archive_key for each in generations if each.left is not None and each.left < keep)
