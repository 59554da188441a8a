"""Describe a workspace's timeline in words.

An entry lists the columns that one transaction changed. The most significant one is described.
"""

import re
from typing import Any

from codehub.cli.answers import HistoryEntry
from codehub.cli.words import OPERATION_WORDS, clean

_BOOKKEEPING = frozenset(
    {"op_id", "op_seq", "op_started_at", "op_acted_at", "error_count", "last_retry_at", "previous_status"}
)
_CHANGED = {"RUNNING": "Start requested", "STANDBY": "Put to sleep", "PENDING": "Sent to the archive"}
_OBSERVED = {
    "RUNNING": "Running",
    "STANDBY": "Asleep, files in place",
    "PENDING": "Nothing left on the machine",
    "DELETED": "Deleted",
}
_ACTORS = {
    "ttl": "idleness",
    "queue": "the queue",
    "observer": "the observer",
    "reconciler": "the reconciler",
    "proxy": "the link",
    "system": "CodeHub",
    "cli": "the command line",
}
# Causes that repeat the change itself are left out: no "Start requested: asked to start".
_REDUNDANT_CAUSES = re.compile(r"asked to|created|edited|may sleep again|waits for a running place")


def is_significant(entry: HistoryEntry) -> bool:
    """Whether an entry is worth showing.

    The mere end of an operation is not: its outcome is.
    """
    changes = {key: change for key, change in entry["changes"].items() if key not in _BOOKKEEPING}
    return entry["version"] == 1 or any(
        key != "operation" or change[1] != "NONE" for key, change in changes.items()
    )


def entry_words(entry: HistoryEntry) -> str:
    """Describe what happened, why, and by whom."""
    words = _what(entry)
    cause = entry["cause"]
    if cause and cause not in _TOLD and not _REDUNDANT_CAUSES.match(cause):
        words += f": {clean(cause)}"
    if who := actor_words(entry["actor"]):
        words += f", by {who}"
    return words


def actor_words(actor: str | None) -> str | None:
    """Describe an actor. None: not recorded."""
    if not actor:
        return None
    kind, _, name = actor.partition(":")
    return clean(name) if kind == "user" else _ACTORS.get(kind, clean(actor))


def last_intent(history: list[HistoryEntry]) -> HistoryEntry | None:
    """Find the newest entry that changed the desired state."""
    return next((entry for entry in history if "desired_state" in entry["changes"]), None)


def _what(entry: HistoryEntry) -> str:
    changes = entry["changes"]
    to: dict[str, Any] = {column: change[1] for column, change in changes.items()}
    if entry["version"] == 1:
        return "Created"
    if to.get("deleted_at"):
        return "Deletion requested"
    if error := to.get("error_info"):
        terminal = isinstance(error, dict) and error.get("is_terminal")
        return "Failed" if terminal else "Failed, will try again"
    if "error_info" in to and "operation" not in to:
        return "Error cleared"
    if told := _TOLD.get(entry["cause"] or ""):
        return told
    if "snapshots" in to:
        return "Snapshot taken and checked"
    if changed := _CHANGED.get(to.get("desired_state", "")):
        return changed
    if to.get("archive_key"):
        return "Archive written and checked"
    if operation := OPERATION_WORDS.get(to.get("operation", "")):
        return operation
    if observed := _OBSERVED.get(to.get("observed_status", "")):
        return observed
    return _of_details(changes)


_TOLD = {
    "asked for a snapshot": "Snapshot requested",
    "cancelled a snapshot": "Snapshot cancelled",
    "keeps an archive as a snapshot": "Snapshot taken and checked",
    "renamed a snapshot": "Snapshot renamed",
    "deleted a snapshot": "Snapshot deleted",
    "opened as a copy of another workspace": "Opened as a copy",
}
"""By what was recorded as the cause, which these words say."""


def _of_details(changes: dict[str, list[Any]]) -> str:
    if not changes:
        return "Note"
    if "health_status" in changes:
        return "Marked as broken" if changes["health_status"][1] == "ERROR" else "Healthy again"
    if "operation" in changes:
        return "Done"
    if "name" in changes:
        before, after = changes["name"]
        return clean(f"Renamed from {before} to {after}")
    if "queued_at" in changes:
        return "In line" if changes["queued_at"][1] else "Left the line"
    if "pinned" in changes:
        return "Pinned" if changes["pinned"][1] else "Not pinned any more"
    if "tags" in changes:
        tags = changes["tags"][1] or []
        return clean(f"Tags: {', '.join(tags)}") if tags else "Tags removed"
    if "awake_until" in changes:
        return "Kept awake" if changes["awake_until"][1] else "May sleep again"
    return "Settings changed"
