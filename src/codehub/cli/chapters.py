"""Tell a workspace's history as people do: "Worked 42 min. Slept after 5 min idle".

What CodeHub did because of one cause is one chapter. The dashboard tells the same (``web/src/words/chapters.ts``);
``chapters.json`` beside it holds both to the same words. Pure.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from codehub.cli.answers import HistoryEntry
from codehub.cli.timeline import actor_words, entry_words, is_significant
from codehub.cli.words import parse_time, size, span

_MACHINERY = frozenset({"operation", "observed_status", "archive_key", "health_status", "error_info"})
_CAUSES = {
    "untouched": "open but untouched for {time}",
    "busy": "busy for {time} without anybody",
    "forgotten": "not used for {time}",
    "link_opened": "the link was opened",
    "place_free": "a running place was free",
    "made_room": "made room for another workspace",
    "returned_to_archive": "the home on a lost node was given up for the last archive",
    "restored_unbound": "restored from an archive of an older release, not bound to this workspace",
}


@dataclass
class Chapter:
    """What was done because of one cause.

    ``wanted``: the desired state, or None for an entry that stands for itself. ``ran_seconds``: how long it had run
    when it was to stop, if known.
    """

    first: HistoryEntry
    wanted: str | None = None
    ran_seconds: float | None = None
    done: bool = False
    took_seconds: float = 0
    restored: bool = False
    failures: int = 0
    archive_key: str | None = None

    @property
    def idle_seconds(self) -> int | None:
        if self.first.get("cause_code") != "idle":
            return None
        return self.first.get("cause_params", {}).get("seconds")

    def absorb(self, entry: HistoryEntry) -> None:
        """Take one step of the machinery into account."""
        self.restored |= _after(entry, "operation") == "RESTORING"
        self.failures += bool(_after(entry, "error_info"))
        self.archive_key = _after(entry, "archive_key") or self.archive_key
        self.done = _after(entry, "observed_status") == self.wanted
        self.took_seconds = _seconds_between(self.first["at"], entry["at"])


def chapters(entries: Sequence[HistoryEntry]) -> list[Chapter]:
    """Group entries, newest first, into chapters, newest first."""
    told: list[Chapter] = []
    open_: Chapter | None = None
    running_since: str | None = None
    for entry in reversed(entries):
        if desired := entry["changes"].get("desired_state"):
            since = running_since if desired[0] == "RUNNING" else None
            open_ = Chapter(
                entry, wanted=desired[1], ran_seconds=_seconds_between(since, entry["at"]) if since else None
            )
            open_.absorb(entry)
            told.append(open_)
        elif _is_machinery(entry) and open_ is not None and not open_.done:
            open_.absorb(entry)
        elif is_significant(entry) and not _is_mere_end(entry):
            told.append(Chapter(entry))
        if "observed_status" in entry["changes"]:
            running_since = entry["at"] if _after(entry, "observed_status") == "RUNNING" else None
    return told[::-1]


def chapter_words(chapter: Chapter, *, sizes: Mapping[str, int]) -> str:
    """Describe a chapter in a sentence or two.

    ``sizes``: bytes of the archives that are kept.
    """
    if chapter.wanted is None or not chapter.done:
        words = entry_words(chapter.first)
    else:
        words = _done_words(chapter, sizes)
        actor = chapter.first["actor"] or ""
        if actor.startswith("user:"):
            words += f", by {actor_words(actor)}"
    ran = _ran_words(chapter)
    return f"{ran} {words}" if ran else words


def _ran_words(chapter: Chapter) -> str | None:
    if chapter.ran_seconds is None:
        return None
    if chapter.idle_seconds is None:
        return f"Ran {span(chapter.ran_seconds)}."
    worked = chapter.ran_seconds - chapter.idle_seconds
    return f"Worked {span(worked)}." if worked >= 1 else None


def _done_words(chapter: Chapter, sizes: Mapping[str, int]) -> str:
    created = chapter.first["version"] == 1
    time = span(max(1, chapter.took_seconds))
    idle = chapter.idle_seconds
    match chapter.wanted:
        case "RUNNING" if created:
            words = f"Created and started in {time}"
        case "RUNNING":
            words = (
                f"Restored from the archive and started in {time}"
                if chapter.restored
                else f"Started in {time}"
            )
        case "PENDING" if created:
            return "Created"
        case "PENDING":
            known = sizes.get(chapter.archive_key or "")
            words = "Archived, verified" if known is None else f"Archived {size(known)}, verified"
        case _:
            words = "Put to sleep" if idle is None else f"Slept after {span(idle)} idle"
    if chapter.failures:
        words += f", after {chapter.failures} failed attempt{'s' if chapter.failures > 1 else ''}"
    cause = _CAUSES.get(chapter.first.get("cause_code") or "")
    if cause is None:
        return words
    return f"{words}: {cause.format(time=span(chapter.first.get('cause_params', {}).get('seconds', 0)))}"


def _is_machinery(entry: HistoryEntry) -> bool:
    """Steps, and failures that are tried again. What needs a person stands for itself."""
    changes = entry["changes"]
    failure = _after(entry, "error_info")
    if isinstance(failure, dict) and failure.get("is_terminal"):
        return False
    cleared = "error_info" in changes and failure is None and "operation" not in changes
    return not cleared and _after(entry, "health_status") != "ERROR" and changes.keys() <= _MACHINERY


def _is_mere_end(entry: HistoryEntry) -> bool:
    """Whether it is the end of an operation whose outcome was told already."""
    return (
        _after(entry, "operation") == "NONE"
        and not _after(entry, "error_info")
        and "observed_status" not in entry["changes"]
    )


def _after(entry: HistoryEntry, column: str) -> Any:
    return entry["changes"].get(column, (None, None))[1]


def _seconds_between(start: str, end: str) -> float:
    return (parse_time(end) - parse_time(start)).total_seconds()
