"""Causes of a workspace's changes, as codes with parameters, for the timeline.

A code can be shown in the reader's own language.

The database keeps one plain English sentence (``text``): it is read in ``psql``, in logs and by the command
line as it stands. ``parse`` is its exact inverse, so readers get the code back, also from rows that are old.
Any other text (an engine's own error message) stays free text: ``parse`` returns None.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class CauseCode(StrEnum):
    CREATED = "created"
    ADOPTED = "adopted"
    EDITED = "edited"
    ASKED_TO_START = "asked_to_start"
    ASKED_TO_STOP = "asked_to_stop"
    ASKED_TO_ARCHIVE = "asked_to_archive"
    ASKED_TO_DELETE = "asked_to_delete"
    ASKED_TO_RECOVER = "asked_to_recover"
    RETURNED_TO_ARCHIVE = "returned_to_archive"
    ASKED_TO_RETURN = "asked_to_return"
    RETURN_CANCELLED = "return_cancelled"
    ASKED_FOR_SNAPSHOT = "asked_for_snapshot"
    SNAPSHOT_CANCELLED = "snapshot_cancelled"
    SNAPSHOT_KEPT = "snapshot_kept"
    SNAPSHOT_RENAMED = "snapshot_renamed"
    SNAPSHOT_DELETED = "snapshot_deleted"
    COPIED = "copied"
    KEPT_AWAKE = "kept_awake"
    MAY_SLEEP = "may_sleep"
    LINK_OPENED = "link_opened"
    QUEUED = "queued"
    PLACE_FREE = "place_free"
    MADE_ROOM = "made_room"
    IDLE = "idle"
    UNTOUCHED = "untouched"
    BUSY = "busy"
    FORGOTTEN = "forgotten"
    RESTORED_UNBOUND = "restored_unbound"


SENTENCES = {
    CauseCode.CREATED: "created",
    CauseCode.ADOPTED: "adopted what was found without a workspace",
    CauseCode.EDITED: "edited",
    CauseCode.ASKED_TO_START: "asked to start",
    CauseCode.ASKED_TO_STOP: "asked to stop",
    CauseCode.ASKED_TO_ARCHIVE: "asked to archive",
    CauseCode.ASKED_TO_DELETE: "asked to delete",
    CauseCode.ASKED_TO_RECOVER: "asked to recover",
    CauseCode.RETURNED_TO_ARCHIVE: "gave the home on a lost node up for the last archive",
    CauseCode.ASKED_TO_RETURN: "asked to return to an earlier archive",
    CauseCode.RETURN_CANCELLED: "asked to stay with the present home",
    CauseCode.ASKED_FOR_SNAPSHOT: "asked for a snapshot",
    CauseCode.SNAPSHOT_CANCELLED: "cancelled a snapshot",
    CauseCode.SNAPSHOT_KEPT: "keeps an archive as a snapshot",
    CauseCode.SNAPSHOT_RENAMED: "renamed a snapshot",
    CauseCode.SNAPSHOT_DELETED: "deleted a snapshot",
    CauseCode.COPIED: "opened as a copy of another workspace",
    CauseCode.KEPT_AWAKE: "asked to keep awake",
    CauseCode.MAY_SLEEP: "may sleep again",
    CauseCode.LINK_OPENED: "opened the link",
    CauseCode.QUEUED: "waits for a running place",
    CauseCode.PLACE_FREE: "a running place was free",
    CauseCode.MADE_ROOM: "made room for another workspace",
    CauseCode.IDLE: "idle for {time}",
    CauseCode.UNTOUCHED: "open but untouched for {time}",
    CauseCode.BUSY: "busy for {time} without anybody",
    CauseCode.FORGOTTEN: "not used for {time}",
    CauseCode.RESTORED_UNBOUND: "restored from an archive of an older release, not bound to this workspace",
}
UNITS = {"d": 86400, "h": 3600, "min": 60, "s": 1}

_TIME = re.compile(r"(\d+) (d|h|min|s)")
_CODES = {sentence: code for code, sentence in SENTENCES.items()}


@dataclass(frozen=True)
class Cause:
    """One cause with its parameters.

    ``seconds``: the duration in the sentence, where it has one.
    """

    code: CauseCode
    seconds: int | None = None

    @property
    def text(self) -> str:
        sentence = SENTENCES[self.code]
        return sentence if self.seconds is None else sentence.format(time=in_words(self.seconds))

    @property
    def params(self) -> dict[str, int]:
        return {} if self.seconds is None else {"seconds": self.seconds}


def parse(text: str | None) -> Cause | None:
    """Parse a stored sentence into its cause; None: free text. Inverts ``Cause.text``."""
    if text is None:
        return None
    duration = _TIME.search(text)
    if duration is None:
        code = _CODES.get(text)
        return Cause(code) if code is not None else None
    code = _CODES.get(text.replace(duration.group(), "{time}", 1))
    return Cause(code, int(duration.group(1)) * UNITS[duration.group(2)]) if code is not None else None


def in_words(seconds: int) -> str:
    """Format a duration in the largest unit that divides it: "5 min", "1 d", "90 s"."""
    for unit, size in UNITS.items():
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
